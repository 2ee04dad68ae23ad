//! Regular expressions in Go's syntax (RE2), matched in linear time.
//!
//! Compiled ones are large and few are used at a time, so the process keeps those used last.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use regex::Regex;

use crate::kinds::{GoRegexpError, go_regexp_error};

/// So many are kept; then all are forgotten.
const KEPT: usize = 256;

/// A regular expression.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Arc<Regex>);

/// Why a text is not a regular expression.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum PatternError {
    /// Go does not read it.
    #[error(transparent)]
    Syntax(#[from] GoRegexpError),
    /// It is too large to be compiled.
    #[error(transparent)]
    Compile(#[from] k3_cel::RegexError),
}

// --- Pattern ---

impl Pattern {
    /// Compiles an expression, unless it was used lately. The error has the text that Go has for it.
    pub(crate) fn new(source: &str) -> Result<Self, PatternError> {
        static CACHE: OnceLock<Mutex<HashMap<String, Arc<Regex>>>> = OnceLock::new();
        let cache = CACHE.get_or_init(Mutex::default);
        let lock = || cache.lock();
        if let Some(known) = lock().get(source) {
            return Ok(Pattern(Arc::clone(known)));
        }
        if let Some(error) = go_regexp_error(source) {
            return Err(error.into());
        }
        let compiled = Arc::new(k3_cel::regular_expression(source)?);
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
    fn rejects_invalid_patterns_with_the_error_of_go() {
        assert_eq!(
            Pattern::new("a(b").unwrap_err().to_string(),
            "error parsing regexp: missing closing ): `a(b`"
        );
    }

    proptest::proptest! {
        #[test]
        fn what_go_takes_compiles(source in "[a\\[\\]{}()*+?.\\\\^$|,0-9dwsbpQEA-]{0,10}") {
            if go_regexp_error(&source).is_none() {
                proptest::prop_assert!(Pattern::new(&source).is_ok(), "{:?}", Pattern::new(&source));
            }
        }
    }
}
