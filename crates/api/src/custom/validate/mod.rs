//! Validates a value against its schema, with the messages and paths of upstream.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/validation.go ValidateCustomResource, ValidateCustomResourceUpdate
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/ratcheting.go RatchetingSchemaValidator

mod cost;
mod format;
mod number;
mod schema_error;
mod value_path;

use serde_json::Value;

pub(crate) use self::format::Format;
use self::{
    cost::{OBJECT_TOO_LARGE, ValidationCost},
    schema_error::{SchemaError, ValidationResult},
    value_path::ValuePath,
};
use super::{
    correlation::{CorrelatedValue, OldItems},
    node::{AdditionalProperties, Kind, LogicalSchemas, Node, SchemaFlag},
};
use crate::{
    field::{BadValue, Error, Path},
    go,
    limits::{self, MAX_PATH_BYTES},
    strategy::ErrorList,
};

/// What is wrong with a value that stands at a location.
pub(crate) fn validate(value: &Value, node: &Node, at: &Path<'_>, errors: &mut ErrorList) {
    let cost = ValidationCost::new();
    let result = validate_value(value, node, &ValuePath::Top, None, &cost);
    finish(result, &cost, at, errors);
}

/// The same for a value that was there before, if it was: what did not change is not validated. `compared` is the schema by
/// which the two are compared.
pub(super) fn validate_update(
    value: &Value,
    old: Option<&Value>,
    (node, compared): (&Node, &Node),
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let cost = ValidationCost::new();
    let result = validate_value(value, node, &ValuePath::Top, None, &cost);
    // What is good stays good, unless something must not be good.
    if result.is_good() && !node.has_flag(SchemaFlag::Excludes) && !cost.is_exhausted() {
        return;
    }
    let Some(old) = old else {
        finish(result, &cost, at, errors);
        return;
    };
    let correlated = CorrelatedValue {
        new: value,
        old,
        node: compared,
    };
    let cost = ValidationCost::new();
    let result = ratcheted(node, &ValuePath::Top, correlated, &cost);
    finish(result, &cost, at, errors);
}

/// Reports what was found, or that the object is too large.
fn finish(result: ValidationResult, cost: &ValidationCost<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    if cost.is_exhausted() {
        errors.push(Error::invalid(at, BadValue::Omitted, OBJECT_TOO_LARGE));
    } else {
        result.into_errors(at, errors);
    }
}

/// Validates a value that can be compared with what it was.
fn ratcheted<'n>(
    node: &'n Node,
    path: &ValuePath<'_>,
    correlated: CorrelatedValue<'_>,
    cost: &ValidationCost<'n>,
) -> ValidationResult {
    let result = validate_value(correlated.new, node, path, Some(correlated), cost);
    if !result.is_good() && correlated.is_same_within(&mut |steps| cost.take(steps)) {
        return ValidationResult::passed(result.passed);
    }
    result
}

/// Validates a value. `correlated`: what the parts of it were before is compared.
fn validate_value<'n>(
    value: &Value,
    node: &'n Node,
    path: &ValuePath<'_>,
    correlated: Option<CorrelatedValue<'_>>,
    cost: &ValidationCost<'n>,
) -> ValidationResult {
    let mut result = ValidationResult::default();
    if !cost.take(1) {
        result.add(SchemaError::without_path(OBJECT_TOO_LARGE.to_owned()));
        return result;
    }
    if value.is_null() {
        result.merge(validate_type(value, node, path));
        validate_enum(value, node, path, cost, &mut result);
        return result;
    }
    let extras = node.extras();
    let typed = node.kind != Kind::Any || node.has_flag(SchemaFlag::IntOrString);
    if typed || extras.is_some_and(|extras| extras.format.is_some()) {
        result.merge(validate_type(value, node, path));
        result.passed += 1;
    }
    match extras.and_then(|extras| extras.junctors.as_deref()) {
        Some(junctors) => result.merge(validate_junctors(value, junctors, path, correlated, cost)),
        None => result.passed += 1,
    }
    result.passed += 1;
    match value {
        Value::String(text) => validate_string(text, node, path, cost, &mut result),
        Value::Number(number) => {
            result.merge(number::validate(number, node, path));
            result.passed += 1;
        }
        Value::Array(items) => validate_array(items, node, path, correlated, cost, &mut result),
        _ => {}
    }
    validate_enum(value, node, path, cost, &mut result);
    result.passed += 1;
    if value.is_object() {
        validate_object(value, node, path, correlated, cost, &mut result);
        result.passed += 1;
    }
    result.passed += 1;
    result
}

fn validate_type(value: &Value, node: &Node, path: &ValuePath<'_>) -> ValidationResult {
    let either = node.has_flag(SchemaFlag::IntOrString);
    let kind = node.kind;
    let wanted = if either { "integer,string" } else { kind.name() };
    let wrong = |wanted: &str, found: &str| {
        let mut result = ValidationResult::default();
        result.add(SchemaError::wrong_type(path, wanted, found));
        result
    };
    let (found, number_value) = match value {
        Value::Null if wanted.is_empty() || node.has_flag(SchemaFlag::Nullable) => {
            return ValidationResult::passed(1);
        }
        Value::Null => return wrong(wanted, "null"),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) => number::type_of(number),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    };
    let takes = |name: &str| {
        if either {
            matches!(name, "integer" | "string")
        } else {
            kind.name() == name
        }
    };
    let is_whole = takes("integer") && value.as_f64().is_some_and(number::is_whole) && found == "number";
    let is_number = takes("number") && found == "integer";
    let fits = takes(found) || is_whole || is_number;
    let format = node.extras().and_then(|extras| extras.format);
    if let Some(format) = format {
        let loose = value.is_string() || value.is_array();
        if !loose && !fits && number_value != format.name() {
            return wrong(format.name(), number_value);
        }
        // Lists pass, too: that is how it always was.
        if loose && !takes("number") && !takes("integer") {
            return ValidationResult::passed(1);
        }
    }
    if fits {
        ValidationResult::passed(1)
    } else {
        wrong(wanted, found)
    }
}

fn validate_enum(
    value: &Value,
    node: &Node,
    path: &ValuePath<'_>,
    cost: &ValidationCost<'_>,
    result: &mut ValidationResult,
) {
    let options = node.extras().map_or(&[] as &[Value], |extras| &extras.options);
    if options.is_empty() {
        return;
    }
    let found = options.iter().position(|option| is_option(value, option));
    cost.take(found.unwrap_or(options.len()) / 8);
    if found.is_none() {
        add(result, cost, || SchemaError::not_an_option(path, value, options));
    }
}

/// Adds an error. The length of its text counts.
fn add(result: &mut ValidationResult, cost: &ValidationCost<'_>, error: impl FnOnce() -> SchemaError) {
    if result.is_full() {
        return;
    }
    let error = error();
    cost.take(error.size() / 64);
    result.add(error);
}

/// Whether a value is an option. Numbers are compared in the form of the option.
fn is_option(value: &Value, option: &Value) -> bool {
    match (value, option) {
        (Value::Null, _) => false,
        (Value::Number(value), Value::Number(option)) => match (option.as_i64(), value.as_i64()) {
            (Some(option), Some(value)) => option == value,
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a fraction is cut off where options are whole"
            )]
            (Some(option), None) => value.as_f64().is_some_and(|value| value as i64 == option),
            (None, _) => value.as_f64() == option.as_f64(),
        },
        _ => value == option,
    }
}

fn validate_string<'n>(
    text: &str,
    node: &'n Node,
    path: &ValuePath<'_>,
    cost: &ValidationCost<'n>,
    result: &mut ValidationResult,
) {
    result.passed += 1;
    let Some(extras) = node.extras() else {
        return;
    };
    validate_length(text, node, path, cost, result);
    if let Some(format) = extras.format {
        let of_text = !matches!(
            format,
            Format::Int32 | Format::Int64 | Format::Float | Format::Double
        );
        if of_text {
            result.passed += 1;
            if !format.fits(text) {
                add(result, cost, || {
                    SchemaError::wrong_type(path, format.name(), text)
                });
            }
        }
    }
}

/// Length and pattern: only the first error is reported.
fn validate_length<'n>(
    text: &str,
    node: &'n Node,
    path: &ValuePath<'_>,
    cost: &ValidationCost<'n>,
    result: &mut ValidationResult,
) {
    let Some(extras) = node.extras() else {
        return;
    };
    if let Some(bounds) = extras.bounds.as_deref()
        && (bounds.max_length.is_some() || bounds.min_length.is_some())
    {
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = bounds.max_length.filter(|max| length > *max) {
            result.add(SchemaError::too_long(path, max));
            return;
        }
        if let Some(min) = bounds.min_length.filter(|min| length < *min) {
            let message = format!("should be at least {min} chars long");
            result.add(SchemaError::invalid(path, text, &message));
            return;
        }
    }
    if extras.pattern.is_empty() {
        return;
    }
    let wrong = match cost.matches(&extras.pattern, text) {
        Ok(matches) => (!matches).then(|| extras.pattern.to_string()),
        Err(error) => Some(format!("{}, but pattern is invalid: {error}", extras.pattern)),
    };
    if let Some(pattern) = wrong {
        add(result, cost, || {
            SchemaError::invalid(path, text, &format!("should match '{pattern}'"))
        });
    }
}

fn validate_array<'n>(
    items: &[Value],
    node: &'n Node,
    path: &ValuePath<'_>,
    correlated: Option<CorrelatedValue<'_>>,
    cost: &ValidationCost<'n>,
    result: &mut ValidationResult,
) {
    result.passed += 2;
    if let Some(inner) = node.items() {
        let old: Option<OldItems<'_>> = correlated.and_then(CorrelatedValue::old_items);
        for (index, item) in items.iter().enumerate() {
            let path = ValuePath::Index(path, index);
            let before = correlated
                .zip(old.as_ref())
                .and_then(|(correlated, old)| correlated.item(index, old));
            result.merge(match before {
                Some(correlated) => ratcheted(inner, &path, correlated, cost),
                None => validate_value(item, inner, &path, None, cost),
            });
        }
    }
    let Some(bounds) = node.extras().and_then(|extras| extras.bounds.as_deref()) else {
        return;
    };
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(min) = bounds.min_items.filter(|min| count < *min) {
        let message = format!("should have at least {min} items");
        result.add(SchemaError::invalid(path, count, &message));
    }
    if let Some(max) = bounds.max_items.filter(|max| count > *max) {
        result.add(SchemaError::too_many(path, "items", items.len(), max));
    }
}

fn validate_object<'n>(
    value: &Value,
    node: &'n Node,
    path: &ValuePath<'_>,
    correlated: Option<CorrelatedValue<'_>>,
    cost: &ValidationCost<'n>,
    result: &mut ValidationResult,
) {
    let Value::Object(fields) = value else {
        return;
    };
    let extras = node.extras();
    if let Some(bounds) = extras.and_then(|extras| extras.bounds.as_deref()) {
        let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
        if let Some(min) = bounds.min_properties.filter(|min| count < *min) {
            let message = format!("should have at least {min} properties");
            result.add(SchemaError::invalid(path, count, &message));
        }
        if let Some(max) = bounds.max_properties.filter(|max| count > *max) {
            result.add(SchemaError::too_many(path, "properties", fields.len(), max));
        }
    }
    let field = |name: &str, value: &Value, node: &'n Node, at: &ValuePath<'_>| {
        // What everybody sees in one version only cannot be compared.
        let visible = !(matches!(path, ValuePath::Top) && matches!(name, "kind" | "apiVersion"));
        let before = correlated
            .filter(|_| visible)
            .and_then(|correlated| correlated.key(name));
        match before {
            Some(correlated) => ratcheted(node, at, correlated, cost),
            None => validate_value(value, node, at, None, cost),
        }
    };
    match node.additional() {
        AdditionalProperties::Node(values) => {
            let others = fields.iter().filter(|(name, _)| node.property(name).is_none());
            for (name, value) in others {
                result.merge(field(name, value, values, &ValuePath::Key(path, name)));
            }
        }
        AdditionalProperties::Nothing => {
            let others = fields.keys().filter(|name| node.property(name).is_none());
            for name in others {
                add(result, cost, || {
                    let shown = limits::display(&ValuePath::Key(path, name), MAX_PATH_BYTES);
                    SchemaError::with_text(path, name, format!("{shown} in body is a forbidden property"))
                });
            }
        }
        AdditionalProperties::Unsaid | AdditionalProperties::Any => {}
    }
    // Both are sorted by name: whichever has fewer is scanned.
    if fields.len() < node.properties().len() {
        for (name, value) in fields {
            if let Some(property) = node.property(name) {
                result.merge(field(name, value, property, &ValuePath::Field(path, name)));
            }
        }
    } else {
        for (name, property) in node.properties() {
            if let Some(value) = fields.get(name) {
                result.merge(field(name, value, property, &ValuePath::Field(path, name)));
            }
        }
    }
    for name in extras.map_or(&[] as &[Box<str>], |extras| &extras.required) {
        if !cost.take(1) {
            return;
        }
        if !fields.contains_key(&**name) {
            add(result, cost, || {
                SchemaError::required(&ValuePath::Key(path, name))
            });
        }
    }
}

fn validate_junctors<'n>(
    value: &Value,
    junctors: &'n LogicalSchemas,
    path: &ValuePath<'_>,
    correlated: Option<CorrelatedValue<'_>>,
    cost: &ValidationCost<'n>,
) -> ValidationResult {
    let mut whole = ValidationResult::default();
    let named = || go::quote(&limits::display(path, MAX_PATH_BYTES));
    let one = |node: &'n Node| validate_value(value, node, path, correlated, cost);
    if !junctors.any_of.is_empty() {
        let mut best: Option<ValidationResult> = None;
        let mut good = None;
        for node in &junctors.any_of {
            let result = one(node);
            if result.is_good() {
                good = Some(result);
                break;
            }
            if best.as_ref().is_none_or(|best| result.passed > best.passed) {
                best = Some(result);
            }
        }
        if good.is_none() {
            let text = format!("{} must validate at least one schema (anyOf)", named());
            whole.add(SchemaError::without_path(text));
        }
        whole.merge(good.or(best).unwrap_or_default());
    }
    if !junctors.one_of.is_empty() {
        let mut best: Option<ValidationResult> = None;
        let mut good: Option<ValidationResult> = None;
        let mut count = 0;
        for node in &junctors.one_of {
            let result = one(node);
            if result.is_good() {
                count += 1;
                best = None;
                good.get_or_insert(result);
            } else if count == 0 && best.as_ref().is_none_or(|best| result.passed > best.passed) {
                best = Some(result);
            }
        }
        if count == 1 {
            whole.merge(good.unwrap_or_default());
        } else {
            let found = match count {
                0 => "Found none valid".to_owned(),
                count => format!("Found {count} valid alternatives"),
            };
            let text = format!(
                "{} must validate one and only one schema (oneOf). {found}",
                named()
            );
            whole.add(SchemaError::without_path(text));
            whole.merge(best.unwrap_or_default());
        }
    }
    if !junctors.all_of.is_empty() {
        let judgements: Vec<_> = junctors.all_of.iter().map(one).collect();
        let good = judgements.iter().filter(|result| result.is_good()).count();
        let all = judgements.len();
        for result in judgements {
            whole.merge(result);
        }
        if good != all {
            let none = if good == 0 { ". None validated" } else { "" };
            let text = format!("{} must validate all the schemas (allOf){none}", named());
            whole.add(SchemaError::without_path(text));
        }
    }
    if junctors.not.as_ref().is_some_and(|node| one(node).is_good()) {
        let text = format!("{} must not validate the schema (not)", named());
        whole.add(SchemaError::without_path(text));
    }
    whole.passed += 1;
    whole
}
