//! The parameters a class passes on to whoever makes volumes.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    strategy::{ErrorList, Tree},
};

/// How many there may be.
const COUNT: usize = 512;
/// How much they may weigh together.
const BYTES: usize = 256 * 1024;

/// What is wrong with the parameters of a class.
pub(super) fn validate(class: &Value, required: bool, errors: &mut ErrorList) {
    let at = Path::new("parameters");
    let parameters = class.entries("parameters");
    if parameters.len() > COUNT {
        errors.push(Error::too_long(&at, COUNT));
        return;
    }
    if parameters.contains_key("") {
        errors.push(Error::invalid(&at, "", "field can not be empty."));
    }
    let bytes = |(key, value): (&String, &Value)| key.len() + value.as_str().unwrap_or_default().len();
    if parameters.iter().map(bytes).sum::<usize>() > BYTES {
        errors.push(Error::too_long(&at, BYTES));
    }
    if required && parameters.is_empty() {
        errors.push(Error::required(&at, "must contain at least one key/value pair"));
    }
}
