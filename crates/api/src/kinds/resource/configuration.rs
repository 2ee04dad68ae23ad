//! What drivers are told of devices, and how devices are selected: in classes, claims and allocations.

use serde_json::Value;

use super::{declared, selector, word};
use crate::{
    field::{Error, Path},
    rules::{Errors, Tree},
};

/// How many selectors, and how many configurations there may be.
pub(super) const SELECTORS: usize = 32;
pub(super) const CONFIGURATIONS: usize = 32;
const EXPRESSION_BYTES: usize = 10 * 1024;
const PARAMETER_BYTES: usize = 10 * 1024;

/// What is judged again of parts that were stored before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// All.
    New,
    /// Not the limits, which were others once.
    Stored,
}

/// What is wrong with selectors, by hand.
pub(super) fn judge_selectors(of: &Value, age: Age, at: &Path<'_>, errors: &mut Errors) {
    let selectors = of.items("selectors");
    if selectors.len() > SELECTORS {
        return;
    }
    let field_path = at.child("selectors");
    for (index, one) in selectors.iter().enumerate() {
        let field_path = field_path.index(index);
        let field_path = field_path.child("cel");
        if !one.has("cel") {
            errors.push(Error::required(&field_path, ""));
            continue;
        }
        let text = one.at("cel").text("expression");
        let field_path = field_path.child("expression");
        if age == Age::Stored {
            continue;
        }
        if text.len() > EXPRESSION_BYTES {
            errors.push(Error::too_long(&field_path, EXPRESSION_BYTES));
        } else {
            selector::judge(text, &field_path, errors);
        }
    }
}

/// What the type says of selectors.
pub(super) fn declared_selectors(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    let field_path = at.child("selectors");
    declared::few(of.items("selectors"), SELECTORS, &field_path, errors);
}

/// What is wrong with a configuration, by hand.
pub(super) fn judge(configuration: &Value, age: Age, at: &Path<'_>, errors: &mut Errors) {
    let field_path = at.child("opaque");
    if !configuration.has("opaque") {
        errors.push(Error::required(&field_path, ""));
        return;
    }
    let parameters = configuration.at("opaque").at("parameters");
    let most = (age == Age::New).then_some(PARAMETER_BYTES);
    raw(parameters, most, &field_path.child("parameters"), errors);
}

/// What the type says of a configuration.
pub(super) fn declared(configuration: &Value, at: &Path<'_>, errors: &mut Errors) {
    if configuration.has("opaque") {
        let field_path = at.child("opaque");
        let driver = configuration.at("opaque").text("driver");
        word::declared_driver(driver, &field_path.child("driver"), errors);
    }
}

/// Data of a driver's own: an object, not too long.
pub(super) fn raw(data: &Value, most: Option<usize>, at: &Path<'_>, errors: &mut Errors) {
    if data.is_null() {
        errors.push(Error::required(at, ""));
        return;
    }
    let length = || data.to_string().len();
    match most {
        Some(most) if length() > most => errors.push(Error::too_long(at, most)),
        _ if !data.is_object() => {
            errors.push(Error::invalid(
                at,
                "<value omitted>",
                "must be a valid JSON object",
            ));
        }
        _ => {}
    }
}
