//! Device selectors and opaque driver configuration, in classes, claims and allocations.

use serde_json::Value;

use super::{declarative, names, selector};
use crate::{
    field::{Error, Path},
    strategy::{ErrorList, Tree},
};

pub(super) const MAX_SELECTORS: usize = 32;
pub(super) const MAX_CONFIGURATIONS: usize = 32;
const MAX_EXPRESSION_BYTES: usize = 10 * 1024;
const MAX_PARAMETER_BYTES: usize = 10 * 1024;

/// Which rules apply to items that are already stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValidatedItem {
    /// All of them.
    New,
    /// All but the size limits, which were different in earlier releases.
    Stored,
}

/// Hand-written validation of selectors.
// upstream: pkg/apis/resource/validation/validation.go validateSelectorSlice, validateSelector
pub(super) fn validate_selectors(holder: &Value, age: ValidatedItem, at: &Path<'_>, errors: &mut ErrorList) {
    let selectors = holder.items("selectors");
    if selectors.len() > MAX_SELECTORS {
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
        if age == ValidatedItem::Stored {
            continue;
        }
        if text.len() > MAX_EXPRESSION_BYTES {
            errors.push(Error::too_long(&field_path, MAX_EXPRESSION_BYTES));
        } else {
            selector::validate_cel_expression(text, &field_path, errors);
        }
    }
}

/// Declarative validation of selectors.
pub(super) fn validate_declaratively_selectors(holder: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("selectors");
    declarative::validate_max_items(holder.items("selectors"), MAX_SELECTORS, &field_path, errors);
}

/// Hand-written validation of a configuration.
// upstream: pkg/apis/resource/validation/validation.go validateDeviceConfiguration, validateOpaqueConfiguration
pub(super) fn validate_device_configuration(
    configuration: &Value,
    age: ValidatedItem,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let field_path = at.child("opaque");
    if !configuration.has("opaque") {
        errors.push(Error::required(&field_path, ""));
        return;
    }
    let parameters = configuration.at("opaque").at("parameters");
    let max = (age == ValidatedItem::New).then_some(MAX_PARAMETER_BYTES);
    validate_raw_extension(parameters, max, &field_path.child("parameters"), errors);
}

/// Declarative validation of a configuration.
pub(super) fn validate_declaratively_configuration(
    configuration: &Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if configuration.has("opaque") {
        let field_path = at.child("opaque");
        let driver = configuration.at("opaque").text("driver");
        names::validate_declaratively_driver_name(driver, &field_path.child("driver"), errors);
    }
}

/// Opaque data of a driver: a JSON object within the size limit.
// upstream: pkg/apis/resource/validation/validation.go validateRawExtension
pub(super) fn validate_raw_extension(
    data: &Value,
    max: Option<usize>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if data.is_null() {
        errors.push(Error::required(at, ""));
        return;
    }
    let length = || data.to_string().len();
    match max {
        Some(max) if length() > max => errors.push(Error::too_long(at, max)),
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
