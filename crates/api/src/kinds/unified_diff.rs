//! Unified diff of two texts, line by line, without the file headers.
//!
//! Finds exactly the matching blocks of Python's difflib `SequenceMatcher`, as go-difflib does, with its autojunk rule: lines
//! that are too frequent in a long text begin no match. Error messages carry these diffs, so they must agree byte for byte.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/diff/diff.go Diff; the algorithm is that of github.com/pmezard/go-difflib

use std::{cell::Cell, collections::HashMap, fmt::Write as _};

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Limit of compared pairs of lines. When it is reached, the rest of long texts counts as changed.
const MAX_COMPARED_PAIRS: usize = 1_000_000;

/// Texts of at least this many lines have lines too frequent to begin a match (difflib's autojunk).
const AUTOJUNK_MIN_LINES: usize = 200;

/// A range of the first text and the range of the second that replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpCode {
    same: bool,
    a: (usize, usize),
    b: (usize, usize),
}

struct SequenceMatcher<'t> {
    a: Vec<&'t str>,
    b: Vec<&'t str>,
    /// Indexes of the lines of `b`, without the too frequent ones (difflib's `b2j`).
    line_indexes: HashMap<&'t str, Vec<usize>>,
    /// Remaining number of line pairs to compare.
    pairs: Cell<usize>,
}

/// The unified diff from `a` to `b`; empty if they are equal.
pub(crate) fn unified_diff(a: &str, b: &str) -> String {
    let matcher = SequenceMatcher::new(a, b);
    let mut out = String::new();
    for group in grouped_op_codes(matcher.op_codes()) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let from = range(first.a.0, last.a.1);
        let to = range(first.b.0, last.b.1);
        writeln!(out, "@@ -{from} +{to} @@").expect("writing to a string succeeds");
        for op_code in &group {
            let mut show = |sign: char, lines: &[&str]| {
                for line in lines {
                    out.push(sign);
                    out.push_str(line);
                    out.push('\n');
                }
            };
            if op_code.same {
                show(' ', &matcher.a[op_code.a.0..op_code.a.1]);
            } else {
                show('-', &matcher.a[op_code.a.0..op_code.a.1]);
                show('+', &matcher.b[op_code.b.0..op_code.b.1]);
            }
        }
    }
    out
}

/// Lines from `start` to `stop`, counted from one; an empty range is reported at the line before it.
fn range(start: usize, stop: usize) -> String {
    match stop - start {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

/// Groups operations with their context; splits where two changes are far apart.
fn grouped_op_codes(mut op_codes: Vec<OpCode>) -> Vec<Vec<OpCode>> {
    if let Some(first) = op_codes.first_mut().filter(|op_code| op_code.same) {
        first.a.0 = first.a.0.max(first.a.1.saturating_sub(CONTEXT));
        first.b.0 = first.b.0.max(first.b.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = op_codes.last_mut().filter(|op_code| op_code.same) {
        last.a.1 = last.a.1.min(last.a.0 + CONTEXT);
        last.b.1 = last.b.1.min(last.b.0 + CONTEXT);
    }
    let mut groups = Vec::new();
    let mut group = Vec::new();
    for mut op_code in op_codes {
        if op_code.same && op_code.a.1 - op_code.a.0 > 2 * CONTEXT {
            group.push(OpCode {
                a: (op_code.a.0, op_code.a.0 + CONTEXT),
                b: (op_code.b.0, op_code.b.0 + CONTEXT),
                ..op_code
            });
            groups.push(std::mem::take(&mut group));
            op_code.a.0 = op_code.a.1 - CONTEXT;
            op_code.b.0 = op_code.b.1 - CONTEXT;
        }
        group.push(op_code);
    }
    groups.push(group);
    groups.retain(|group| group.iter().any(|op_code| !op_code.same));
    groups
}

// --- SequenceMatcher ---

impl<'t> SequenceMatcher<'t> {
    fn new(a: &'t str, b: &'t str) -> Self {
        let a: Vec<_> = a.split('\n').collect();
        let b: Vec<_> = b.split('\n').collect();
        let mut line_indexes: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, line) in b.iter().enumerate() {
            line_indexes.entry(*line).or_default().push(index);
        }
        if b.len() >= AUTOJUNK_MIN_LINES {
            let max = b.len() / 100 + 1;
            line_indexes.retain(|_, at| at.len() <= max);
        }
        SequenceMatcher {
            a,
            b,
            line_indexes,
            pairs: Cell::new(MAX_COMPARED_PAIRS),
        }
    }

    /// The longest common run within these ranges: its start in each and its length. Of several, the one that starts first
    /// in `a`, and then in `b`.
    fn find_longest_match(&self, a: (usize, usize), b: (usize, usize)) -> (usize, usize, usize) {
        let mut best = (a.0, b.0, 0);
        let mut lengths: HashMap<usize, usize> = HashMap::new();
        for i in a.0..a.1 {
            let mut next = HashMap::new();
            let compared = 1 + self.line_indexes.get(self.a[i]).map_or(0, Vec::len);
            let Some(pairs) = self.pairs.get().checked_sub(compared) else {
                break;
            };
            self.pairs.set(pairs);
            for &j in self.line_indexes.get(self.a[i]).into_iter().flatten() {
                if j < b.0 {
                    continue;
                }
                if j >= b.1 {
                    break;
                }
                let before = j.checked_sub(1).and_then(|j| lengths.get(&j)).copied();
                let length = before.unwrap_or_default() + 1;
                next.insert(j, length);
                if length > best.2 {
                    best = (i + 1 - length, j + 1 - length, length);
                }
            }
            lengths = next;
        }
        // Too frequent lines may extend a match, though they begin none.
        while best.0 > a.0 && best.1 > b.0 && self.a[best.0 - 1] == self.b[best.1 - 1] {
            best = (best.0 - 1, best.1 - 1, best.2 + 1);
        }
        while best.0 + best.2 < a.1
            && best.1 + best.2 < b.1
            && self.a[best.0 + best.2] == self.b[best.1 + best.2]
        {
            best.2 += 1;
        }
        best
    }

    fn matching_blocks(&self, a: (usize, usize), b: (usize, usize), out: &mut Vec<(usize, usize, usize)>) {
        if self.pairs.get() < a.1 - a.0 {
            return;
        }
        let (i, j, length) = self.find_longest_match(a, b);
        if length == 0 {
            return;
        }
        if a.0 < i && b.0 < j {
            self.matching_blocks((a.0, i), (b.0, j), out);
        }
        out.push((i, j, length));
        if i + length < a.1 && j + length < b.1 {
            self.matching_blocks((i + length, a.1), (j + length, b.1), out);
        }
    }

    fn op_codes(&self) -> Vec<OpCode> {
        let mut matching_blocks = Vec::new();
        self.matching_blocks((0, self.a.len()), (0, self.b.len()), &mut matching_blocks);
        matching_blocks.push((self.a.len(), self.b.len(), 0));
        let mut op_codes: Vec<OpCode> = Vec::new();
        let mut i = 0;
        let mut j = 0;
        for (a, b, length) in matching_blocks {
            if i < a || j < b {
                op_codes.push(OpCode {
                    same: false,
                    a: (i, a),
                    b: (j, b),
                });
            }
            (i, j) = (a + length, b + length);
            if length == 0 {
                continue;
            }
            match op_codes.last_mut().filter(|op_code| op_code.same) {
                Some(op_code) => (op_code.a.1, op_code.b.1) = (i, j),
                None => op_codes.push(OpCode {
                    same: true,
                    a: (a, i),
                    b: (b, j),
                }),
            }
        }
        op_codes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_three_lines_of_context() {
        let a = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16";
        let b = a.replace("\n3\n", "\nthree\n").replace("\n15", "");
        assert_eq!(
            unified_diff(a, &b),
            "@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+three\n 4\n 5\n 6\n@@ -12,5 +12,4 @@\n 12\n 13\n 14\n-15\n 16\n"
        );
        assert_eq!(unified_diff(a, a), "");
    }
}
