//! The result of a check.

use std::fmt;

use serde_json::{Value, json};

/// A check and its result.
#[derive(Debug)]
pub(super) struct DoctorCheck {
    pub(super) what: &'static str,
    pub(super) status: CheckStatus,
    pub(super) found: String,
    pub(super) advice: Option<String>,
}

/// Result of a check, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CheckStatus {
    Ok,
    /// A server works, but there is or will be a problem.
    Warn,
    /// A server does not work, or loses data.
    Fail,
}

/// The worst result.
pub(super) fn worst(checks: &[DoctorCheck]) -> CheckStatus {
    let statuses = checks.iter().map(|check| check.status);
    statuses.max().unwrap_or(CheckStatus::Ok)
}

// --- DoctorCheck ---

impl DoctorCheck {
    pub(super) fn ok(what: &'static str, found: impl Into<String>) -> Self {
        DoctorCheck {
            what,
            status: CheckStatus::Ok,
            found: found.into(),
            advice: None,
        }
    }

    pub(super) fn warn(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        DoctorCheck {
            status: CheckStatus::Warn,
            advice: Some(advice.into()),
            ..DoctorCheck::ok(what, found)
        }
    }

    pub(super) fn fail(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        DoctorCheck {
            status: CheckStatus::Fail,
            ..DoctorCheck::warn(what, found, advice)
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({"check": self.what, "verdict": self.status.name(), "found": self.found, "advice": self.advice})
    }
}

impl fmt::Display for DoctorCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<4}  {}: {}", self.status.name(), self.what, self.found)?;
        for line in self.advice.iter().flat_map(|advice| advice.lines()) {
            writeln!(f, "      -> {line}")?;
        }
        Ok(())
    }
}

// --- CheckStatus ---

impl CheckStatus {
    pub(super) fn name(self) -> &'static str {
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
    fn prints_a_line_and_the_advice_below_it() {
        assert_eq!(
            DoctorCheck::ok("clock", "sane").to_string(),
            "ok    clock: sane\n"
        );
        let text = DoctorCheck::warn("disk", "slow", "buy\nanother").to_string();
        assert_eq!(text, "warn  disk: slow\n      -> buy\n      -> another\n");
        assert_eq!(
            worst(&[
                DoctorCheck::ok("a", ""),
                DoctorCheck::fail("b", "", ""),
                DoctorCheck::warn("c", "", "")
            ]),
            CheckStatus::Fail
        );
    }
}
