//! What was looked at, and what was found.

use std::fmt;

use serde_json::{Value, json};

/// One thing that was looked at.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) what: &'static str,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    /// What to do about it.
    pub(super) advice: Option<String>,
}

/// How it is, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// A server runs, but something is amiss or will be.
    Warn,
    /// A server does not run so, or loses something.
    Fail,
}

/// The worst that was found.
pub(super) fn worst(checks: &[Check]) -> Verdict {
    let verdicts = checks.iter().map(|check| check.verdict);
    verdicts.max().unwrap_or(Verdict::Ok)
}

// --- Check ---

impl Check {
    pub(super) fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Check {
            what,
            verdict: Verdict::Ok,
            found: found.into(),
            advice: None,
        }
    }

    pub(super) fn warn(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Check {
            verdict: Verdict::Warn,
            advice: Some(advice.into()),
            ..Check::ok(what, found)
        }
    }

    pub(super) fn fail(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Check {
            verdict: Verdict::Fail,
            ..Check::warn(what, found, advice)
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({"check": self.what, "verdict": self.verdict.word(), "found": self.found, "advice": self.advice})
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<4}  {}: {}", self.verdict.word(), self.what, self.found)?;
        for line in self.advice.iter().flat_map(|advice| advice.lines()) {
            writeln!(f, "      -> {line}")?;
        }
        Ok(())
    }
}

// --- Verdict ---

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_a_line_and_what_to_do_stands_below_it() {
        assert_eq!(Check::ok("clock", "sane").to_string(), "ok    clock: sane\n");
        let told = Check::warn("disk", "slow", "buy\nanother").to_string();
        assert_eq!(told, "warn  disk: slow\n      -> buy\n      -> another\n");
        assert_eq!(
            worst(&[
                Check::ok("a", ""),
                Check::fail("b", "", ""),
                Check::warn("c", "", "")
            ]),
            Verdict::Fail
        );
    }
}
