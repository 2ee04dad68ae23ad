//! The difference of two texts, line by line, as `diff -u` shows it but for the heads.
//!
//! Promises the very blocks the well-known matcher of longest runs finds, with its habit of not beginning a match at
//! lines that are all too common in a long text: messages carry these texts, and are compared.

use std::{cell::Cell, collections::HashMap, fmt::Write as _};

/// Lines shown around a change.
const CONTEXT: usize = 3;

/// Pairs of lines that are compared at most. In what is left of long texts then, every line counts as changed.
const MOST_PAIRS: usize = 1_000_000;

/// Texts of this many lines and more have lines that are too common to begin a match with.
const LONG: usize = 200;

/// A stretch of the first text and the stretch of the second it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    same: bool,
    a: (usize, usize),
    b: (usize, usize),
}

struct Matcher<'t> {
    a: Vec<&'t str>,
    b: Vec<&'t str>,
    /// Where the lines of `b` stand in it, but for the too common ones.
    places: HashMap<&'t str, Vec<usize>>,
    /// How many more pairs of lines are compared.
    pairs: Cell<usize>,
}

/// The changes that make the second text of the first; empty if they are equal.
pub(crate) fn unified(a: &str, b: &str) -> String {
    let matcher = Matcher::new(a, b);
    let mut out = String::new();
    for group in groups(matcher.steps()) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let from = range(first.a.0, last.a.1);
        let to = range(first.b.0, last.b.1);
        writeln!(out, "@@ -{from} +{to} @@").expect("writing to a string succeeds");
        for step in &group {
            let mut show = |sign: char, lines: &[&str]| {
                for line in lines {
                    out.push(sign);
                    out.push_str(line);
                    out.push('\n');
                }
            };
            if step.same {
                show(' ', &matcher.a[step.a.0..step.a.1]);
            } else {
                show('-', &matcher.a[step.a.0..step.a.1]);
                show('+', &matcher.b[step.b.0..step.b.1]);
            }
        }
    }
    out
}

/// Lines from `start` to `stop`, counted from one; an empty stretch begins at the line before it.
fn range(start: usize, stop: usize) -> String {
    match stop - start {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

/// The steps with the context around changes, parted where two changes are far from each other.
fn groups(mut steps: Vec<Step>) -> Vec<Vec<Step>> {
    if let Some(first) = steps.first_mut().filter(|step| step.same) {
        first.a.0 = first.a.0.max(first.a.1.saturating_sub(CONTEXT));
        first.b.0 = first.b.0.max(first.b.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = steps.last_mut().filter(|step| step.same) {
        last.a.1 = last.a.1.min(last.a.0 + CONTEXT);
        last.b.1 = last.b.1.min(last.b.0 + CONTEXT);
    }
    let mut groups = Vec::new();
    let mut group = Vec::new();
    for mut step in steps {
        if step.same && step.a.1 - step.a.0 > 2 * CONTEXT {
            group.push(Step {
                a: (step.a.0, step.a.0 + CONTEXT),
                b: (step.b.0, step.b.0 + CONTEXT),
                ..step
            });
            groups.push(std::mem::take(&mut group));
            step.a.0 = step.a.1 - CONTEXT;
            step.b.0 = step.b.1 - CONTEXT;
        }
        group.push(step);
    }
    groups.push(group);
    groups.retain(|group| group.iter().any(|step| !step.same));
    groups
}

// --- Matcher ---

impl<'t> Matcher<'t> {
    fn new(a: &'t str, b: &'t str) -> Self {
        let (a, b): (Vec<_>, Vec<_>) = (a.split('\n').collect(), b.split('\n').collect());
        let mut places: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, line) in b.iter().enumerate() {
            places.entry(*line).or_default().push(index);
        }
        if b.len() >= LONG {
            let most = b.len() / 100 + 1;
            places.retain(|_, at| at.len() <= most);
        }
        Matcher {
            a,
            b,
            places,
            pairs: Cell::new(MOST_PAIRS),
        }
    }

    /// The longest run both have within these stretches: where it begins in each, and its length. Of several, the one
    /// that begins first in `a`, and then in `b`.
    fn longest(&self, a: (usize, usize), b: (usize, usize)) -> (usize, usize, usize) {
        let mut best = (a.0, b.0, 0);
        let mut lengths: HashMap<usize, usize> = HashMap::new();
        for i in a.0..a.1 {
            let mut next = HashMap::new();
            let compared = 1 + self.places.get(self.a[i]).map_or(0, Vec::len);
            let Some(pairs) = self.pairs.get().checked_sub(compared) else {
                break;
            };
            self.pairs.set(pairs);
            for &j in self.places.get(self.a[i]).into_iter().flatten() {
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
        // Too common lines may go on with a match, though they begin none.
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

    fn blocks(&self, a: (usize, usize), b: (usize, usize), out: &mut Vec<(usize, usize, usize)>) {
        if self.pairs.get() < a.1 - a.0 {
            return;
        }
        let (i, j, length) = self.longest(a, b);
        if length == 0 {
            return;
        }
        if a.0 < i && b.0 < j {
            self.blocks((a.0, i), (b.0, j), out);
        }
        out.push((i, j, length));
        if i + length < a.1 && j + length < b.1 {
            self.blocks((i + length, a.1), (j + length, b.1), out);
        }
    }

    fn steps(&self) -> Vec<Step> {
        let mut blocks = Vec::new();
        self.blocks((0, self.a.len()), (0, self.b.len()), &mut blocks);
        blocks.push((self.a.len(), self.b.len(), 0));
        let mut steps: Vec<Step> = Vec::new();
        let (mut i, mut j) = (0, 0);
        for (a, b, length) in blocks {
            if i < a || j < b {
                steps.push(Step {
                    same: false,
                    a: (i, a),
                    b: (j, b),
                });
            }
            (i, j) = (a + length, b + length);
            if length == 0 {
                continue;
            }
            match steps.last_mut().filter(|step| step.same) {
                Some(step) => (step.a.1, step.b.1) = (i, j),
                None => steps.push(Step {
                    same: true,
                    a: (a, i),
                    b: (b, j),
                }),
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_show_three_lines_around_them() {
        let a = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16";
        let b = a.replace("\n3\n", "\nthree\n").replace("\n15", "");
        assert_eq!(
            unified(a, &b),
            "@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+three\n 4\n 5\n 6\n@@ -12,5 +12,4 @@\n 12\n 13\n 14\n-15\n 16\n"
        );
        assert_eq!(unified(a, a), "");
    }
}
