//! What is left of crates that take booleans or return texts as errors. It only shrinks: `cargo xtask tidy` refuses more than is
//! here, and names entries that nothing needs.

use super::SignatureRule;

/// What is left below a path.
pub(super) struct BacklogEntry {
    /// The start of a path from the root of the workspace.
    pub(super) path: &'static str,
    pub(super) rule: SignatureRule,
    /// How many there are.
    pub(super) left: usize,
    pub(super) reason: &'static str,
}

/// Everything that is left.
pub(super) const BACKLOG: &[BacklogEntry] = &[
    left(
        "bench/src/",
        SignatureRule::TextError,
        7,
        "a benchmark prints its error and ends; not changed yet",
    ),
    left(
        "crates/node/src/",
        SignatureRule::TextError,
        15,
        "the volumes of API objects, which are about to share one implementation",
    ),
    left(
        "examples/workflow/src/",
        SignatureRule::TextError,
        4,
        "an example shows the error of an activity as a text; not changed yet",
    ),
    left(
        "bench/src/",
        SignatureRule::BooleanParameter,
        1,
        "a benchmark prints its error and ends; not changed yet",
    ),
    left(
        "crates/node/src/",
        SignatureRule::BooleanParameter,
        5,
        "the volumes of API objects, which are about to share one implementation",
    ),
    left(
        "crates/scheduler/src/",
        SignatureRule::BooleanParameter,
        2,
        "not changed yet, few are left",
    ),
];

const fn left(path: &'static str, rule: SignatureRule, left: usize, reason: &'static str) -> BacklogEntry {
    BacklogEntry {
        path,
        rule,
        left,
        reason,
    }
}
