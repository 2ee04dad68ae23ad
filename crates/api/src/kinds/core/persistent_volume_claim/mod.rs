//! Claims for volumes.

use serde_json::Value;

use crate::{
    field::Path,
    rules::{Errors, TreeMut},
};

/// What is taken because the old object has it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leniency {}

/// Fills in what was left out of a claim.
pub(crate) fn default_claim(claim: &mut Value) {
    claim.make("status").fill("phase", "Pending");
    claim.make("spec").fill("volumeMode", "Filesystem");
}

/// What is wrong with the spec of a claim.
pub(crate) fn validate_claim_spec(spec: &Value, lenient: Leniency, at: &Path<'_>, errors: &mut Errors) {
    let _ = (spec, lenient, at, errors);
}

/// Warnings about what a claim asks for.
pub(crate) fn spec_warnings(spec: &Value, at: &Path<'_>, warnings: &mut Vec<String>) {
    let _ = (spec, at, warnings);
}
