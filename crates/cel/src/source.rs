//! The text of an expression, and errors that point into it.

// upstream: vendor/github.com/google/cel-go/common/source.go Source, OffsetLocation
// upstream: vendor/github.com/google/cel-go/common/errors.go ToDisplayString

use std::fmt;

/// The most errors that are reported one by one.
const MAX_ERRORS: usize = 100;
/// The longest line that is shown.
const LONGEST_LINE: usize = 16_384;

/// What is wrong with an expression, each error with its location.
///
/// Shown as clients know it: where, what, the line, and a mark below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    shown: String,
    instantiation: bool,
}

/// A text, cut into characters.
#[derive(Debug)]
pub(crate) struct Source {
    /// Its characters.
    pub(crate) chars: Vec<char>,
}

/// Something wrong, and where: none if it is the whole.
#[derive(Debug)]
pub(crate) struct Issue {
    pub(crate) offset: Option<u32>,
    pub(crate) message: String,
}

// --- CompileError ---

impl CompileError {
    /// The expression is valid, but a constant in it has no value.
    pub(crate) fn instantiation(text: String) -> Self {
        CompileError {
            shown: text,
            instantiation: true,
        }
    }

    /// Whether the expression is valid, but a constant in it has no value: clients see that the program could
    /// not be instantiated, not that it could not be compiled.
    pub fn is_instantiation(&self) -> bool {
        self.instantiation
    }

    /// Reports issues in the order of their locations.
    pub(crate) fn new(source: &Source, mut issues: Vec<Issue>) -> Self {
        let total = issues.len();
        issues.truncate(MAX_ERRORS);
        let mut located: Vec<_> = issues
            .iter()
            .map(|issue| (source.location(issue.offset), issue))
            .collect();
        located.sort_by_key(|(location, _)| *location);
        let mut shown: Vec<String> = located
            .into_iter()
            .map(|((line, column), issue)| source.show(line, column, &issue.message))
            .collect();
        if total > MAX_ERRORS {
            shown.push(format!("{} more errors were truncated", total - MAX_ERRORS));
        }
        CompileError {
            shown: shown.join("\n"),
            instantiation: false,
        }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl std::error::Error for CompileError {}

// --- Source ---

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        Source {
            chars: text.chars().collect(),
        }
    }

    pub(crate) fn text(&self, start: u32, end: u32) -> String {
        self.chars[start as usize..end as usize].iter().collect()
    }

    /// Line and column, the first from one, the second from nothing.
    fn location(&self, offset: Option<u32>) -> (i64, i64) {
        let Some(offset) = offset else {
            return (-1, -1);
        };
        let before = &self.chars[..(offset as usize).min(self.chars.len())];
        let lines = before.iter().filter(|c| **c == '\n').count();
        let column = before.iter().rev().take_while(|c| **c != '\n').count();
        (wide(lines) + 1, wide(column))
    }

    fn show(&self, line: i64, column: i64, message: &str) -> String {
        let mut shown = format!("ERROR: <input>:{line}:{}: {message}", column + 1);
        let Ok(number) = usize::try_from(line - 1) else {
            return shown;
        };
        let Some(chars) = self.chars.split(|c| *c == '\n').nth(number) else {
            return shown;
        };
        if chars.iter().map(|c| c.len_utf8()).sum::<usize>() > LONGEST_LINE {
            return shown;
        }
        let dots = chars.iter().take(usize::try_from(column).unwrap_or(0));
        shown.push_str("\n | ");
        shown.extend(chars.iter().map(|c| if *c == '\t' { ' ' } else { *c }));
        shown.push_str("\n | ");
        shown.extend(dots.clone().map(|c| if c.is_ascii() { '.' } else { '\u{ff0e}' }));
        let marked = chars.get(dots.count());
        shown.push(if marked.is_none_or(char::is_ascii) {
            '^'
        } else {
            '\u{ff3e}'
        });
        shown
    }
}

fn wide(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
