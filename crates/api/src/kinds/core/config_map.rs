//! Configuration for pods to read.

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    kinds::field_checks::push_invalid,
    name,
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, named_row},
    time::Time,
};

/// How many bytes the values of a config map or secret may have together.
pub(in crate::kinds) const MAX_BYTES: usize = 1024 * 1024;

/// How many bytes a value has that is written in base64.
pub(in crate::kinds) fn bytes_of(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count().min(2)
}

pub(super) struct ConfigMap;

const COLUMNS: &[Column] = &[Column::name(), Column::field("Data", "data"), Column::age()];

// upstream: pkg/registry/core/configmap/strategy.go strategy
impl RestStrategy for ConfigMap {
    // upstream: pkg/apis/core/validation/validation.go ValidateConfigMap
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let mut bytes = 0;
        let data = object.entries("data");
        let binary = object.entries("binaryData");
        let data_place = Path::new("data");
        let binary_place = Path::new("binaryData");
        for (key, value) in data {
            let field_path = data_place.key(key);
            push_invalid(key, name::validate_config_key(key), &field_path, errors);
            if binary.contains_key(key) {
                let detail = "duplicate of key present in binaryData";
                errors.push(Error::invalid(&field_path, key, detail));
            }
            bytes += value.as_str().map_or(0, str::len);
        }
        for (key, value) in binary {
            push_invalid(
                key,
                name::validate_config_key(key),
                &binary_place.key(key),
                errors,
            );
            bytes += bytes_of(value);
        }
        if bytes > MAX_BYTES {
            // The whole object is too large: its place has no name.
            errors.push(Error::too_long(&Path::new(""), MAX_BYTES));
        }
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateConfigMapUpdate
    fn validate_update(&self, new: &Value, old: &Value, at: &StrategyContext<'_>, errors: &mut ErrorList) {
        immutable(errors, new, old, &["data", "binaryData"]);
        self.validate(new, at, errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printConfigMap
    fn row(&self, object: &Value, now: Time) -> Row {
        let count = object.entries("data").len() + object.entries("binaryData").len();
        named_row(object, now, [json!(count)])
    }
}

/// What is wrong with a change of something that once was said to be immutable.
pub(in crate::kinds) fn immutable(errors: &mut ErrorList, new: &Value, old: &Value, fields: &[&str]) {
    if !old.flag("immutable") {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if !new.flag("immutable") {
        errors.push(Error::forbidden(&Path::new("immutable"), detail));
    }
    for field in fields {
        if new.at(field) != old.at(field) {
            errors.push(Error::forbidden(&Path::new(field), detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base64,
        kinds::builtin,
        strategy::{self, User},
    };

    #[test]
    fn the_size_of_base64_needs_no_decoding() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", b"abcd"] {
            assert_eq!(bytes_of(&json!(base64::encode(bytes))), bytes.len());
        }
    }

    #[test]
    fn what_is_immutable_stays_so() {
        let old = json!({"immutable": true, "data": {"a": "b"}});
        let mut errors = ErrorList::new();
        immutable(
            &mut errors,
            &json!({"data": {"a": "c"}}),
            &old,
            &["data", "binaryData"],
        );
        let places: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(places, ["immutable", "data"]);
        errors.clear();
        immutable(&mut errors, &json!({}), &json!({"data": {"a": "b"}}), &["data"]);
        assert!(errors.is_empty());
    }

    #[test]
    fn a_finalizer_without_a_domain_is_a_standard_one() {
        let at = StrategyContext {
            kind: builtin().kind("", "v1", "ConfigMap").unwrap(),
            now: Time::from_unix(0, 0),
            user: &User::default(),
        };
        let create = |finalizer: &str| {
            let metadata = json!({"name": "x", "namespace": "n", "finalizers": [finalizer]});
            strategy::create(&mut json!({"metadata": metadata}), &at)
        };
        assert!(create("orphan").is_ok() && create("e.com/x").is_ok());
        assert_eq!(
            create("mine").unwrap_err().message,
            "ConfigMap \"x\" is invalid: metadata.finalizers[0]: Invalid value: \"mine\": name is neither a standard \
             finalizer name nor is it fully qualified"
        );
    }
}
