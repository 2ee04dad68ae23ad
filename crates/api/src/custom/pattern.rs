//! Regular expressions in the syntax of Go, matched in time linear in the text.
//!
//! Compiled ones are large and few are used at a time, so the process keeps those used last.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use regex::Regex;

use crate::kinds::go_regexp_fault;

/// So many are kept; then all are forgotten.
const KEPT: usize = 256;

/// So many bytes one may take, compiled.
const MAX_SIZE: usize = 8 << 20;

/// A regular expression.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Arc<Regex>);

// --- Pattern ---

impl Pattern {
    /// Compiles an expression, unless it was used lately. The error is the text Go has for it.
    pub(crate) fn new(source: &str) -> Result<Self, String> {
        static CACHE: OnceLock<Mutex<HashMap<String, Arc<Regex>>>> = OnceLock::new();
        let cache = CACHE.get_or_init(Mutex::default);
        let lock = || cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(source) {
            return Ok(Pattern(Arc::clone(known)));
        }
        if let Some(fault) = go_regexp_fault(source) {
            return Err(fault);
        }
        let compiled = regex::RegexBuilder::new(&translate(source))
            .size_limit(MAX_SIZE)
            .dfa_size_limit(MAX_SIZE / 4)
            .build()
            .map_err(|_| format!("error parsing regexp: expression too large: `{source}`"))?;
        let compiled = Arc::new(compiled);
        let mut kept = lock();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(source.to_owned(), Arc::clone(&compiled));
        Ok(Pattern(compiled))
    }

    /// Whether it fits anywhere in a text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// An expression of Go's in the syntax of ours. Classes such as `\d` are ASCII there; in brackets there are no
/// operators; a brace that counts nothing is a brace.
fn translate(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 8);
    let mut rest = source.chars().peekable();
    let mut class = false;
    let mut first = false;
    while let Some(c) = rest.next() {
        let at_start = std::mem::take(&mut first);
        match c {
            '\\' => {
                let Some(escaped) = rest.next() else {
                    out.push('\\');
                    break;
                };
                if escaped == 'Q' {
                    quoted(&mut rest, &mut out);
                    continue;
                }
                escape(escaped, class, &mut rest, &mut out);
            }
            '[' if !class => {
                out.push('[');
                if rest.peek() == Some(&'^') {
                    rest.next();
                    out.push('^');
                }
                class = true;
                first = true;
            }
            '[' if rest.peek() == Some(&':') => {
                let name: String = rest.clone().take_while(|c| *c != ']').collect();
                if name.len() > 1 && name.ends_with(':') {
                    out.push('[');
                    out.push_str(&name);
                    out.push(']');
                    rest.nth(name.chars().count());
                } else {
                    out.push_str("\\[");
                }
            }
            ']' if class && at_start => out.push_str("\\]"),
            ']' if class => {
                class = false;
                out.push(']');
            }
            '[' | '&' | '~' if class => {
                out.push('\\');
                out.push(c);
            }
            // A dash after a class, or at an end, is a dash.
            '-' if class && (at_start || rest.peek() == Some(&']') || rest.peek() == Some(&'-')) => {
                out.push_str("\\-");
            }
            '{' if !class && !counts(rest.clone()) => out.push_str("\\{"),
            '}' if !class && !closes(&out) => out.push_str("\\}"),
            _ => out.push(c),
        }
    }
    out
}

type Rest<'t> = std::iter::Peekable<std::str::Chars<'t>>;

/// Text between `\Q` and `\E` stands for itself.
fn quoted(rest: &mut Rest<'_>, out: &mut String) {
    while let Some(c) = rest.next() {
        if c == '\\' && rest.peek() == Some(&'E') {
            rest.next();
            return;
        }
        let mut bytes = [0; 4];
        out.push_str(&regex::escape(c.encode_utf8(&mut bytes)));
    }
}

fn escape(escaped: char, class: bool, rest: &mut Rest<'_>, out: &mut String) {
    match escaped {
        // Between brackets the whole class cannot leave Unicode, so its ASCII form is written out.
        'd' if class => out.push_str("0-9"),
        'w' if class => out.push_str("0-9A-Za-z_"),
        's' if class => out.push_str("\\t\\n\\x0C\\r "),
        'D' => out.push_str("[^0-9]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        'S' => out.push_str("[^\\t\\n\\x0C\\r ]"),
        'd' => out.push_str("[0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\x0C\\r ]"),
        'b' => out.push_str("(?-u:\\b)"),
        // Where no word ends, between two parts of a character even: only places between characters count.
        'B' => out.push_str("\\B"),
        'z' | 'A' | 'a' | 'f' | 't' | 'n' | 'r' | 'v' | 'p' | 'P' | 'x' => {
            out.push('\\');
            out.push(escaped);
            if matches!(escaped, 'p' | 'P') {
                property(rest, out);
            }
        }
        'C' => out.push_str("(?s:.)"),
        '0'..='7' => octal(escaped, rest, out),
        _ if escaped.is_ascii() && !escaped.is_ascii_alphanumeric() => {
            let mut bytes = [0; 4];
            let text = escaped.encode_utf8(&mut bytes);
            if class && escaped.is_ascii_punctuation() && !matches!(escaped, '<' | '>' | '_') {
                out.push('\\');
                out.push_str(text);
            } else if class {
                out.push_str(text);
            } else {
                out.push_str(&regex::escape(text));
            }
        }
        _ => {
            out.push('\\');
            out.push(escaped);
        }
    }
}

/// `\p{^Greek}` is `\P{Greek}`; the `^` is written in front here.
fn property(rest: &mut Rest<'_>, out: &mut String) {
    let negated: String = rest.clone().take(2).collect();
    if negated == "{^" {
        rest.nth(1);
        let other = if out.pop() == Some('p') { 'P' } else { 'p' };
        out.push(other);
        out.push('{');
    }
}

/// A character by its number in octal.
fn octal(first: char, rest: &mut Rest<'_>, out: &mut String) {
    let mut number = first.to_digit(8).unwrap_or_default();
    for _ in 0..2 {
        let Some(digit) = rest.peek().and_then(|c| c.to_digit(8)) else {
            break;
        };
        number = number * 8 + digit;
        rest.next();
    }
    out.push_str(&format!("\\x{{{number:X}}}"));
}

/// Whether what follows a brace makes it a count: `3}`, `3,}`, `3,5}`.
fn counts(rest: Rest<'_>) -> bool {
    let inner: String = rest.take_while(|c| *c != '}').collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let closed = inner.len() < 12;
    closed
        && match inner.split_once(',') {
            None => is_number(&inner),
            Some((least, most)) => is_number(least) && (most.is_empty() || is_number(most)),
        }
}

/// Whether a brace is open in what is written: the last count, or the name of a class of characters.
fn closes(out: &str) -> bool {
    let Some(open) = out.rfind('{') else {
        return false;
    };
    let escaped = out[..open].ends_with('\\');
    let inner = &out[open + 1..];
    let plain = inner
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b',' || byte == b'_');
    !escaped && plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_means_what_it_means_in_go() {
        let samples: [(&str, &[&str], &[&str]); 16] = [
            (r"^\d+$", &["12"], &["\u{661}", ""]),
            (r"^\w$", &["a", "_"], &["\u{e9}"]),
            (r"^[\w.-]+$", &["a-b.c"], &["a b"]),
            (r"^[[:alpha:]]{2,3}$", &["ab", "abc"], &["a", "abcd"]),
            (r"^a{$", &["a{"], &["a"]),
            (r"^{x}$", &["{x}"], &["x"]),
            (r"^[a&&b]$", &["&"], &["c"]),
            (r"^[]a]$", &["]", "a"], &["b"]),
            (r"^[^]]$", &["x"], &["]"]),
            (r"^\Qa.b\E$", &["a.b"], &["axb"]),
            (r"^\<\>\_\-\/$", &["<>_-/"], &[""]),
            (r"^\141$", &["a"], &["b"]),
            (r"(?i)^ABC$", &["abc"], &["ab"]),
            (r"^\p{^Greek}$", &["a"], &["\u{3b1}"]),
            (r"^[a-z]([-a-z0-9]*[a-z0-9])?$", &["a-b"], &["-a"]),
            (r"^(?P<n>x)+\z", &["xx"], &["xy"]),
        ];
        for (source, good, bad) in samples {
            let pattern = Pattern::new(source).unwrap();
            for text in good {
                assert!(pattern.matches(text), "{source} {text:?} {:?}", pattern.0);
            }
            for text in bad {
                assert!(!pattern.matches(text), "{source} {text:?} {:?}", pattern.0);
            }
        }
    }

    #[test]
    fn what_go_does_not_take_is_told_in_its_words() {
        assert_eq!(
            Pattern::new("a(b").unwrap_err(),
            "error parsing regexp: missing closing ): `a(b`"
        );
    }

    proptest::proptest! {
        #[test]
        fn what_go_takes_compiles(source in "[a\\[\\]{}()*+?.\\\\^$|,0-9dwsbpQEA-]{0,10}") {
            if go_regexp_fault(&source).is_none() {
                proptest::prop_assert!(Pattern::new(&source).is_ok(), "{}", translate(&source));
            }
        }
    }
}
