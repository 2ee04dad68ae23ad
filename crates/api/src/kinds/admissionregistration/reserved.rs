//! Names that are kept for configurations that come from files.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    rules::{Errors, Tree},
};

const SUFFIX: &str = ".static.k8s.io";
const DETAIL: &str = "names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and \
    cannot be managed via the API";

/// A new object may not have such a name.
pub(super) fn refuse(object: &Value, errors: &mut Errors) {
    let name = object.at("metadata").text("name");
    if name.ends_with(SUFFIX) {
        let metadata = Path::new("metadata");
        errors.push(Error::invalid(&metadata.child("name"), name, DETAIL));
    }
}

/// The user of an object that has had such a name all along is told.
pub(super) fn warn(object: &Value, old: Option<&Value>) -> Vec<String> {
    let name = object.at("metadata").text("name");
    let messages = old.is_some() && name.ends_with(SUFFIX);
    messages
        .then(|| format!("metadata.name: {DETAIL}"))
        .into_iter()
        .collect()
}
