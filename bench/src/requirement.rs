//! What is asked, beside what was measured.

use std::borrow::Cow;

use serde::Serialize;

use crate::table::{Table, grouped};

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Requirement {
    pub(crate) what: Cow<'static, str>,
    pub(crate) asked: RequirementBound,
    /// `None` when it was not measured in this run.
    pub(crate) measured: Option<f64>,
    pub(crate) met: Option<bool>,
}

/// A limit on a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RequirementBound {
    AtMost(f64),
    AtLeast(f64),
}

/// The requirements as a table.
pub(crate) fn print(requirements: &[Requirement]) {
    let mut table = Table::new(["", "asked", "measured", "met"]);
    for requirement in requirements {
        let asked = match requirement.asked {
            RequirementBound::AtMost(limit) => format!("<= {}", figure(limit)),
            RequirementBound::AtLeast(limit) => format!(">= {}", figure(limit)),
        };
        let measured = requirement.measured.map_or_else(|| "-".to_owned(), figure);
        let met = answer(requirement.met).to_owned();
        table.row([requirement.what.to_string(), asked, measured, met]);
    }
    table.print("Asked");
}

/// Whether something is as asked, for a table.
pub(crate) const fn answer(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "-",
    }
}

/// A figure with as many digits as it deserves.
pub(crate) fn figure(number: f64) -> String {
    if number >= 100.0 {
        grouped(number)
    } else {
        format!("{number:.2}")
    }
}

// --- Requirement ---

impl Requirement {
    pub(crate) fn new(
        what: impl Into<Cow<'static, str>>,
        asked: RequirementBound,
        measured: Option<f64>,
    ) -> Self {
        Self {
            what: what.into(),
            asked,
            measured,
            met: measured.map(|measured| asked.holds(measured)),
        }
    }
}

// --- RequirementBound ---

impl RequirementBound {
    fn holds(self, measured: f64) -> bool {
        match self {
            Self::AtMost(limit) => measured <= limit,
            Self::AtLeast(limit) => measured >= limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_met_on_its_own_side_only() {
        let met = |bound, measured| Requirement::new("", bound, measured).met;
        assert_eq!(met(RequirementBound::AtMost(2.0), Some(2.0)), Some(true));
        assert_eq!(met(RequirementBound::AtMost(2.0), Some(2.1)), Some(false));
        assert_eq!(met(RequirementBound::AtLeast(2.0), Some(1.9)), Some(false));
        assert_eq!(met(RequirementBound::AtLeast(2.0), None), None);
    }
}
