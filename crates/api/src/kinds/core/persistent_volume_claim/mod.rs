//! Claims for volumes.

use serde_json::Value;

use crate::{
    field::Path,
    rules::{Errors, Tree, TreeMut},
};

/// Fills in what was left out of a claim.
pub(crate) fn default_claim(claim: &mut Value) {
    let status = claim.make("status");
    if status.text("phase").is_empty() {
        status.set("phase", "Pending");
    }
    claim.make("spec").fill("volumeMode", "Filesystem");
}

/// What is wrong with the spec of a new claim.
pub(crate) fn validate_claim_spec(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let _ = (spec, at, errors);
}
