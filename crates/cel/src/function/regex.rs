//! Regular expressions, in the syntax that Go reads.
//!
//! Promises: matching is linear in the text. What means something else here than in Go is rewritten: classes are of
//! ASCII, a brace that repeats nothing is itself, and a bracket in a class is too.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/regex.go find, findAll

use regex::{Regex, RegexBuilder};

use super::{Implementation, no_overload};
use crate::{
    error::EvalError,
    value::{Result, Value},
};

/// The most memory of a compiled expression.
const LARGEST: usize = 8 << 20;
const MAX_REPEATED: u32 = 1000;

/// Why a regular expression cannot be used; the text begins as Go's does.
#[derive(Clone, Debug, thiserror::Error)]
#[error("error parsing regexp: {reason}: `{pattern}`")]
pub struct RegexError {
    pattern: String,
    #[source]
    reason: RegexErrorReason,
}

#[derive(Clone, Debug, thiserror::Error)]
enum RegexErrorReason {
    #[error("trailing backslash at end of expression")]
    TrailingBackslash,
    #[error("missing closing ]")]
    MissingBracket,
    #[error("invalid repeat count")]
    InvalidRepeatCount,
    #[error("{}", go_text(.0))]
    Compile(#[source] regex::Error),
}

/// Where an escape stands: it is written differently in a class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EscapeLocation {
    Outside,
    InClass,
}

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "matches" | "find" | "findAll" => run,
        _ => return None,
    })
}

fn run<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [_, Value::String(pattern), ..] = args else {
        return mismatch(name, args);
    };
    let regex = compile(pattern).map_err(|error| match name {
        "matches" => EvalError::new(error.to_string()),
        _ => EvalError::new(format!("Illegal regex: {error}")),
    })?;
    with(name, &regex, args)
}

fn mismatch<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match (name, &args[0]) {
        ("matches", Value::String(_)) => Err(EvalError::no_such_overload()),
        ("matches", _) => Err(EvalError::new("no such overload: matches")),
        _ => no_overload(name, args),
    }
}

/// Runs one of the functions with an expression that is compiled already.
pub(crate) fn with<'a>(name: &str, regex: &Regex, args: &[Value<'a>]) -> Result<'a> {
    let Value::String(text) = &args[0] else {
        return mismatch(name, args);
    };
    let max = match args.get(2) {
        None => -1,
        Some(Value::Int(max)) => *max,
        Some(_) => return no_overload(name, args),
    };
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    Ok(match name {
        "matches" => Value::Bool(regex.is_match(text)),
        "find" => Value::text(regex.find(text).map_or("", |found| found.as_str())),
        _ => Value::texts(regex.find_iter(text).take(max).map(|found| found.as_str())),
    })
}

/// Compiles an expression.
pub fn compile(pattern: &str) -> std::result::Result<Regex, RegexError> {
    let failed = |reason| RegexError {
        pattern: pattern.to_owned(),
        reason,
    };
    let rewritten = Rewrite {
        rest: pattern.chars().collect(),
        at: 0,
        out: String::new(),
    }
    .run()
    .map_err(failed)?;
    RegexBuilder::new(&rewritten)
        .size_limit(LARGEST)
        .dfa_size_limit(LARGEST)
        .nest_limit(200)
        .build()
        .map_err(|error| failed(RegexErrorReason::Compile(error)))
}

/// What is wrong, in Go's messages where there are any.
fn go_text(error: &regex::Error) -> String {
    let text = error.to_string();
    // The first lines show the expression.
    let last = text.lines().last().unwrap_or(&text);
    match last.strip_prefix("error: ").unwrap_or(last) {
        "unclosed group" => "missing closing )",
        "unopened group" => "unexpected )",
        "repetition operator missing expression" => "missing argument to repetition operator",
        "unclosed character class" => "missing closing ]",
        other if other.contains("size limit") => "expression too large",
        other if other.contains("nested") => "expression nests too deeply",
        other => other,
    }
    .to_owned()
}

struct Rewrite {
    rest: Vec<char>,
    at: usize,
    out: String,
}

impl Rewrite {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    fn run(mut self) -> std::result::Result<String, RegexErrorReason> {
        while let Some(c) = self.peek(0) {
            match c {
                '\\' => self.escape(EscapeLocation::Outside)?,
                '[' => self.class()?,
                '{' => self.brace()?,
                // Outside of a repetition these are themselves.
                '}' | ']' => {
                    self.out.push('\\');
                    self.out.push(c);
                    self.at += 1;
                }
                _ => {
                    self.out.push(c);
                    self.at += 1;
                }
            }
        }
        Ok(self.out)
    }

    fn escape(&mut self, location: EscapeLocation) -> std::result::Result<(), RegexErrorReason> {
        use EscapeLocation::{InClass, Outside};

        let Some(c) = self.peek(1) else {
            return Err(RegexErrorReason::TrailingBackslash);
        };
        self.at += 2;
        let ascii = match (c, location) {
            ('d', Outside) => "[0-9]",
            ('d', InClass) => "0-9",
            ('D', _) => "[^0-9]",
            ('w', Outside) => "[0-9A-Za-z_]",
            ('w', InClass) => "0-9A-Za-z_",
            ('W', _) => "[^0-9A-Za-z_]",
            ('s', Outside) => "[\\t\\n\\x0C\\r ]",
            ('s', InClass) => "\\t\\n\\x0C\\r ",
            ('S', _) => "[^\\t\\n\\x0C\\r ]",
            ('b', Outside) => "(?-u:\\b)",
            ('C', Outside) => "(?s:.)",
            ('<', _) => "<",
            ('>', _) => ">",
            ('Q', Outside) => {
                self.quoted();
                return Ok(());
            }
            (first @ '0'..='7', _) => {
                self.octal(first);
                return Ok(());
            }
            // A class that is negated inside its braces.
            ('p' | 'P', _) if self.peek(0) == Some('{') && self.peek(1) == Some('^') => {
                self.out.push_str(if c == 'p' { "\\P{" } else { "\\p{" });
                self.at += 2;
                while let Some(c) = self.peek(0) {
                    self.out.push(c);
                    self.at += 1;
                    if c == '}' {
                        break;
                    }
                }
                return Ok(());
            }
            _ => {
                self.out.push('\\');
                self.out.push(c);
                if matches!(c, 'p' | 'P' | 'x') && self.peek(0) == Some('{') {
                    while let Some(c) = self.peek(0) {
                        self.out.push(c);
                        self.at += 1;
                        if c == '}' {
                            break;
                        }
                    }
                }
                return Ok(());
            }
        };
        self.out.push_str(ascii);
        Ok(())
    }

    /// A character by its number in octal.
    fn octal(&mut self, first: char) {
        let mut number = first.to_digit(8).expect("the caller saw a digit from 0 to 7");
        for _ in 0..2 {
            let Some(digit) = self.peek(0).and_then(|c| c.to_digit(8)) else {
                break;
            };
            number = number * 8 + digit;
            self.at += 1;
        }
        self.out.extend(["\\x{", &format!("{number:X}"), "}"]);
    }

    /// What stands between `\Q` and `\E` is itself.
    fn quoted(&mut self) {
        while let Some(c) = self.peek(0) {
            if c == '\\' && self.peek(1) == Some('E') {
                self.at += 2;
                return;
            }
            self.out.push_str(&regex::escape(&c.to_string()));
            self.at += 1;
        }
    }

    fn class(&mut self) -> std::result::Result<(), RegexErrorReason> {
        self.out.push('[');
        self.at += 1;
        if self.peek(0) == Some('^') {
            self.out.push('^');
            self.at += 1;
        }
        let mut first = true;
        while let Some(c) = self.peek(0) {
            match c {
                ']' if !first => {
                    self.out.push(']');
                    self.at += 1;
                    return Ok(());
                }
                '\\' => self.escape(EscapeLocation::InClass)?,
                '[' if self.peek(1) == Some(':') => {
                    let end = self.rest[self.at..]
                        .windows(2)
                        .position(|pair| pair == [':', ']']);
                    let Some(end) = end else {
                        return Err(RegexErrorReason::MissingBracket);
                    };
                    self.out.extend(&self.rest[self.at..self.at + end + 2]);
                    self.at += end + 2;
                }
                '[' | ']' | '&' | '~' => {
                    self.out.push('\\');
                    self.out.push(c);
                    self.at += 1;
                }
                '-' if self.peek(1) == Some('-') => {
                    self.out.push_str("\\-");
                    self.at += 1;
                }
                _ => {
                    self.out.push(c);
                    self.at += 1;
                }
            }
            first = false;
        }
        Err(RegexErrorReason::MissingBracket)
    }

    fn brace(&mut self) -> std::result::Result<(), RegexErrorReason> {
        // Counts are short: nothing far behind is looked for.
        let nearby = self.rest[self.at..].iter().skip(1);
        let digits = nearby.take_while(|c| c.is_ascii_digit() || **c == ',').count();
        let end = Some(digits + 1).filter(|end| self.peek(*end) == Some('}'));
        let inner: Option<String> = end.map(|end| self.rest[self.at + 1..self.at + end].iter().collect());
        let counts = inner.as_deref().and_then(|inner| {
            let (low, high) = inner.split_once(',').unwrap_or((inner, ""));
            let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
            (!low.is_empty() && number(low) && number(high)).then_some((low, high))
        });
        let (Some(end), Some((low, high))) = (end, counts) else {
            self.out.push_str("\\{");
            self.at += 1;
            return Ok(());
        };
        for count in [low, high] {
            if !count.is_empty() && count.parse::<u32>().is_ok_and(|count| count > MAX_REPEATED)
                || count.len() > 9
            {
                return Err(RegexErrorReason::InvalidRepeatCount);
            }
        }
        self.out.extend(&self.rest[self.at..=self.at + end]);
        self.at += end + 1;
        Ok(())
    }
}
