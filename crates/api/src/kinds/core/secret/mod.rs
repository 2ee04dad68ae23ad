//! Secret: confidential data for pods.

mod key_pair;

use std::borrow::Cow;

use serde_json::{Value, json};

use super::config_map::{MAX_BYTES, decoded_size, validate_immutable};
use crate::{
    base64, decode,
    field::{Error, Path},
    kinds::{field_checks::push_invalid, go_values::typed_string},
    name,
    strategy::{
        Column, ErrorList, RestStrategy, Row, SelectableField, StrategyContext, Tree, TreeMut, decoded_bytes,
        named_row,
    },
    time::Time,
};

pub(in crate::kinds) struct Secret;

const OPAQUE: &str = "Opaque";
const TLS: &str = "kubernetes.io/tls";
const CERTIFICATE: &str = "tls.crt";
const PRIVATE_KEY: &str = "tls.key";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("Type", "type"),
    Column::field("Data", "data"),
    Column::age(),
];

const SELECTABLE: &[SelectableField] = &[SelectableField::rule("type", |secret| {
    Cow::Borrowed(secret.text("type"))
})];

// upstream: pkg/registry/core/secret/strategy.go strategy
impl RestStrategy for Secret {
    // upstream: pkg/apis/core/v1/defaults.go SetDefaults_Secret
    fn set_defaults(&self, object: &mut Value) {
        object.set_default("type", OPAQUE);
        if object.text("type").is_empty() {
            object.set("type", OPAQUE);
        }
        // stringData is write-only: it is merged into data.
        if let Some(Value::Object(texts)) = object.remove("stringData") {
            let data = object.ensure_object("data");
            for (key, text) in texts {
                let text = text.as_str().unwrap_or_default();
                data.set(&key, base64::encode(text.as_bytes()));
            }
            if object.entries("data").is_empty() {
                object.remove("data");
            }
        }
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateSecret
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let field_path = Path::new("data");
        let mut bytes = 0;
        for (key, value) in object.entries("data") {
            push_invalid(key, name::validate_config_key(key), &field_path.key(key), errors);
            bytes += decoded_size(value);
        }
        if bytes > MAX_BYTES {
            errors.push(Error::too_long(&field_path, MAX_BYTES));
        }
        validate_by_type(errors, object);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateSecretUpdate
    fn validate_update(&self, new: &Value, old: &Value, at: &StrategyContext<'_>, errors: &mut ErrorList) {
        if new.text("type") != old.text("type") {
            let type_value = typed_string(new.text("type"));
            errors.push(Error::invalid(
                &Path::new("type"),
                type_value,
                "field is immutable",
            ));
        }
        validate_immutable(errors, new, old, &["data"]);
        self.validate(new, at, errors);
    }

    // upstream: pkg/registry/core/secret/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, _: Option<&Value>) -> Vec<String> {
        if new.text("type") != TLS {
            return Vec::new();
        }
        let bytes = |key: &str| decoded_bytes(new.at("data").text(key));
        key_pair::invalid_key_pair_message(&bytes(CERTIFICATE), &bytes(PRIVATE_KEY))
            .into_iter()
            .collect()
    }

    // upstream: pkg/registry/core/secret/strategy.go SelectableFields
    fn selectable_fields(&self) -> &'static [SelectableField] {
        SELECTABLE
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printSecret
    fn row(&self, object: &Value, now: Time) -> Row {
        let cells = [json!(object.text("type")), json!(object.entries("data").len())];
        named_row(object, now, cells)
    }
}

/// Validates the data of the built-in secret types.
// upstream: pkg/apis/core/validation/validation.go ValidateSecret
fn validate_by_type(errors: &mut ErrorList, secret: &Value) {
    let data = secret.at("data");
    let root = Path::new("data");
    let mut require = |key: &str| errors.push(Error::required(&root.key(key), ""));
    match secret.text("type") {
        "kubernetes.io/service-account-token"
            if secret
                .at_path("metadata.annotations")
                .text(ACCOUNT_NAME)
                .is_empty() =>
        {
            let metadata = Path::new("metadata");
            let field_path = metadata.child("annotations");
            errors.push(Error::required(&field_path.key(ACCOUNT_NAME), ""));
        }
        "kubernetes.io/dockercfg" => validate_registry_config(errors, data, &root, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => {
            validate_registry_config(errors, data, &root, ".dockerconfigjson");
        }
        "kubernetes.io/basic-auth" if !data.has("username") && !data.has("password") => {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" if data.text("ssh-privatekey").is_empty() => require("ssh-privatekey"),
        TLS => {
            for key in [CERTIFICATE, PRIVATE_KEY] {
                if !data.has(key) {
                    require(key);
                }
            }
        }
        _ => {}
    }
}

/// Validates registry credentials, which are a JSON object.
fn validate_registry_config(errors: &mut ErrorList, data: &Value, root: &Path<'_>, key: &str) {
    let field_path = root.key(key);
    let Some(text) = data.at(key).as_str() else {
        errors.push(Error::required(&field_path, ""));
        return;
    };
    let bytes = decoded_bytes(text);
    let msg = match decode::untyped(&bytes) {
        Err(error) => error.to_string(),
        Ok(decoded) => match decoded.value {
            Value::Object(_) | Value::Null => return,
            other => {
                let kind = match other {
                    Value::Bool(_) => "bool",
                    Value::Number(_) => "number",
                    Value::String(_) => "string",
                    _ => "array",
                };
                format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
            }
        },
    };
    errors.push(Error::invalid(&field_path, "<secret contents redacted>", msg));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create_messages(secret: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate_by_type(&mut errors, secret);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn string_data_overrides_data() {
        let mut secret = json!({"data": {"a": "eA==", "b": "eA=="}, "stringData": {"b": "hi", "c": ""}});
        Secret.set_defaults(&mut secret);
        assert_eq!(
            secret,
            json!({"type": "Opaque", "data": {"a": "eA==", "b": "aGk=", "c": ""}})
        );
    }

    #[test]
    fn requires_keys_by_type() {
        assert_eq!(
            create_messages(&json!({"type": TLS, "data": {CERTIFICATE: ""}})),
            ["data[tls.key]: Required value"]
        );
        assert_eq!(
            create_messages(&json!({"type": "kubernetes.io/service-account-token"})),
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"]
        );
        assert_eq!(
            create_messages(&json!({"type": "kubernetes.io/basic-auth", "data": {"password": ""}})),
            [""; 0]
        );
        assert_eq!(
            create_messages(&json!({"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}})),
            ["data[ssh-privatekey]: Required value"]
        );
    }

    #[test]
    fn rejects_malformed_registry_credentials() {
        let secret = |text: &str| {
            json!({
                "type": "kubernetes.io/dockercfg",
                "data": {".dockercfg": base64::encode(text.as_bytes())},
            })
        };
        assert_eq!(create_messages(&secret("{\"auths\":{}}")), [""; 0]);
        assert_eq!(
            create_messages(&secret("[1]")),
            [
                "data[.dockercfg]: Invalid value: \"<secret contents redacted>\": json: cannot unmarshal array into \
                 Go value of type map[string]interface {}"
            ]
        );
        assert_eq!(
            create_messages(&secret("{")),
            ["data[.dockercfg]: Invalid value: \"<secret contents redacted>\": unexpected end of JSON input"]
        );
    }
}
