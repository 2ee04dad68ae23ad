//! Parameters of a StorageClass or VolumeAttributesClass for its driver.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    strategy::{ErrorList, Tree},
};

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETERS_BYTES: usize = 256 * 1024;

// upstream: pkg/apis/storage/validation/validation.go validateParameters
pub(super) fn validate_parameters(class: &Value, errors: &mut ErrorList) {
    let at = Path::new("parameters");
    let parameters = class.entries("parameters");
    if parameters.len() > MAX_PARAMETERS {
        errors.push(Error::too_long(&at, MAX_PARAMETERS));
        return;
    }
    if parameters.contains_key("") {
        errors.push(Error::invalid(&at, "", "field can not be empty."));
    }
    let bytes = |(key, value): (&String, &Value)| key.len() + value.as_str().unwrap_or_default().len();
    if parameters.iter().map(bytes).sum::<usize>() > MAX_PARAMETERS_BYTES {
        errors.push(Error::too_long(&at, MAX_PARAMETERS_BYTES));
    }
}

// upstream: pkg/apis/storage/validation/validation.go validateParameters
/// Validates parameters of which there must be one.
pub(super) fn validate_required_parameters(class: &Value, errors: &mut ErrorList) {
    validate_parameters(class, errors);
    if class.entries("parameters").is_empty() {
        let detail = "must contain at least one key/value pair";
        errors.push(Error::required(&Path::new("parameters"), detail));
    }
}
