//! The name suffix that is reserved for configurations from static manifests.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    strategy::{ErrorList, Tree},
};

const STATIC_SUFFIX: &str = ".static.k8s.io";
const DETAIL: &str = "names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and \
    cannot be managed via the API";

/// Rejects the reserved suffix on create.
// upstream: pkg/apis/admissionregistration/validation/static_suffix.go ValidateStaticSuffix
pub(super) fn validate_static_suffix(object: &Value, errors: &mut ErrorList) {
    let name = object.at("metadata").text("name");
    if name.ends_with(STATIC_SUFFIX) {
        let metadata = Path::new("metadata");
        errors.push(Error::invalid(&metadata.child("name"), name, DETAIL));
    }
}

/// Warns of the reserved suffix on update of an object that already has it.
// upstream: pkg/apis/admissionregistration/validation/static_suffix.go WarningsForStaticSuffix
pub(super) fn warnings_for_static_suffix(object: &Value, old: Option<&Value>) -> Vec<String> {
    let name = object.at("metadata").text("name");
    let messages = old.is_some() && name.ends_with(STATIC_SUFFIX);
    messages
        .then(|| format!("metadata.name: {DETAIL}"))
        .into_iter()
        .collect()
}
