//! From text to a configuration. Every error is collected, with the path of its field.
//!
//! Fields are read one by one and not by a derived decoder, whose messages would quote values: a value may be a secret.

use base64::{Engine, engine::general_purpose::STANDARD};
use k3_api::decode::{DecodeError, yaml_to_json};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::{
    ConfigError, EncryptionConfiguration, KmsConfiguration, NamedKey, ProviderConfiguration, ResourceRule,
    validate,
};
use crate::resource::GroupResource;

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";
/// Lengths of keys in bytes.
const AES_KEYS: &[usize] = &[16, 24, 32];
const SECRETBOX_KEYS: &[usize] = &[32];

/// The errors found so far.
pub(super) struct ConfigErrors(Vec<String>);

// --- ConfigErrors ---

impl ConfigErrors {
    pub(super) fn required(&mut self, path: &str, why: &str) {
        self.0.push(format!("{path}: Required value: {why}"));
    }

    pub(super) fn invalid(&mut self, path: &str, value: &str, why: &str) {
        self.0.push(format!("{path}: Invalid value: {value:?}: {why}"));
    }

    fn wrong_type(&mut self, path: &str, wanted: &str) {
        self.0.push(format!("{path}: Invalid value: expected {wanted}"));
    }

    /// The fields of an object, of which these are known.
    fn object<'v>(&mut self, value: &'v Value, path: &str, known: &[&str]) -> Option<&'v Map<String, Value>> {
        let Some(object) = value.as_object() else {
            self.wrong_type(path, "an object");
            return None;
        };
        for name in object.keys() {
            if !known.contains(&name.as_str()) {
                self.0.push(format!("{}: unknown field", join(path, name)));
            }
        }
        Some(object)
    }

    fn list<'v>(&mut self, object: &'v Map<String, Value>, path: &str, name: &str) -> &'v [Value] {
        match object.get(name) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.wrong_type(&join(path, name), "a list");
                &[]
            }
        }
    }

    /// A text; empty if it is missing.
    fn text<'v>(&mut self, object: &'v Map<String, Value>, path: &str, name: &str) -> &'v str {
        match object.get(name) {
            None | Some(Value::Null) => "",
            Some(Value::String(text)) => text,
            Some(_) => {
                self.wrong_type(&join(path, name), "a string");
                ""
            }
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

// upstream: staging/src/k8s.io/apiserver/pkg/server/options/encryptionconfig/config.go loadConfig
pub(super) fn read(text: &[u8]) -> Result<EncryptionConfiguration, ConfigError> {
    let decoded = yaml_to_json(text).map_err(|error| ConfigError::Syntax(syntax_error_location(&error)))?;
    let tree = &decoded.value;
    let field = |name: &str| tree.get(name).and_then(Value::as_str).unwrap_or_default();
    if field("kind") != KIND || field("apiVersion") != API_VERSION {
        let found = format!(
            "the file has kind {:?} of apiVersion {:?}",
            field("kind"),
            field("apiVersion")
        );
        return Err(ConfigError::Kind(found));
    }
    let mut errors = ConfigErrors(Vec::new());
    let rules = read_rules(tree, &mut errors);
    if errors.0.is_empty() {
        validate::check_masks(&rules, &mut errors);
    }
    if errors.0.is_empty() {
        Ok(EncryptionConfiguration { rules })
    } else {
        Err(ConfigError::Invalid(errors.0))
    }
}

/// Where the text is wrong; what stands there may be a secret.
fn syntax_error_location(error: &DecodeError) -> String {
    let text = match error {
        DecodeError::Yaml(text) => text.as_str(),
        _ => "",
    };
    match text.split_once(':') {
        Some((line, _)) if line.starts_with("line ") => line.to_owned(),
        _ => "it cannot be decoded".to_owned(),
    }
}

fn read_rules(tree: &Value, errors: &mut ConfigErrors) -> Vec<ResourceRule> {
    let Some(root) = errors.object(tree, "", &["kind", "apiVersion", "resources"]) else {
        return Vec::new();
    };
    let items = errors.list(root, "", "resources");
    if items.is_empty() {
        errors.required("resources", "at least one resources is required");
    }
    let mut kms_names = Vec::new();
    let mut rules = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let path = format!("resources[{at}]");
        let Some(item) = errors.object(item, &path, &["resources", "providers"]) else {
            continue;
        };
        let mut names = Vec::new();
        let path_of_names = join(&path, "resources");
        for (at, name) in errors.list(item, &path, "resources").iter().enumerate() {
            match name.as_str() {
                Some(name) => names.push(name),
                None => errors.wrong_type(&format!("{path_of_names}[{at}]"), "a string"),
            }
        }
        validate::check_names(&names, &path_of_names, errors);
        let path_of_providers = join(&path, "providers");
        let given = errors.list(item, &path, "providers");
        if given.is_empty() {
            let why = format!("at least one {path_of_providers} is required");
            errors.required(&path_of_providers, &why);
        }
        let mut providers = Vec::new();
        for (at, provider) in given.iter().enumerate() {
            let path = format!("{path_of_providers}[{at}]");
            providers.extend(read_provider(provider, &path, &mut kms_names, errors));
        }
        rules.push(ResourceRule {
            resources: names.iter().map(|name| GroupResource::parse(name)).collect(),
            providers,
        });
    }
    rules
}

fn read_provider(
    value: &Value,
    path: &str,
    kms_names: &mut Vec<String>,
    errors: &mut ConfigErrors,
) -> Option<ProviderConfiguration> {
    const PROVIDERS: [&str; 5] = ["identity", "secretbox", "aesgcm", "aescbc", "kms"];
    let object = errors.object(value, path, &PROVIDERS)?;
    let mut given = object
        .iter()
        .filter(|(name, value)| PROVIDERS.contains(&name.as_str()) && !value.is_null());
    let Some((name, value)) = given.next() else {
        errors.required(
            path,
            "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
        );
        return None;
    };
    if given.next().is_some() {
        let names: Vec<_> = object.keys().map(String::as_str).collect();
        errors.invalid(
            path,
            &names.join(", "),
            "more than one provider specified in a single element, should split into different list elements",
        );
        return None;
    }
    let path = join(path, name);
    Some(match name.as_str() {
        "identity" => {
            errors.object(value, &path, &[])?;
            ProviderConfiguration::Identity
        }
        "secretbox" => ProviderConfiguration::Secretbox(read_keys(value, &path, SECRETBOX_KEYS, errors)),
        "aesgcm" => ProviderConfiguration::AesGcm(read_keys(value, &path, AES_KEYS, errors)),
        "aescbc" => ProviderConfiguration::AesCbc(read_keys(value, &path, AES_KEYS, errors)),
        _ => ProviderConfiguration::Kms(read_kms(value, &path, kms_names, errors)?),
    })
}

// upstream: staging/src/k8s.io/apiserver/pkg/apis/apiserver/validation/validation_encryption.go validateKeys
fn read_keys(value: &Value, path: &str, lengths: &[usize], errors: &mut ConfigErrors) -> Vec<NamedKey> {
    let Some(object) = errors.object(value, path, &["keys"]) else {
        return Vec::new();
    };
    let items = errors.list(object, path, "keys");
    let path = join(path, "keys");
    if items.is_empty() {
        errors.required(&path, "at least one keys is required");
    }
    let mut keys = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let Some(item) = errors.object(item, &path, &["name", "secret"]) else {
            continue;
        };
        let name = errors.text(item, &path, "name");
        if name.is_empty() {
            errors.required(&join(&path, "name"), "name is a mandatory field for a key");
        }
        let secret = errors.text(item, &path, "secret");
        let path = join(&path, "secret");
        if secret.is_empty() {
            errors.required(&path, "secret is a mandatory field for a key");
            continue;
        }
        let Ok(secret) = STANDARD.decode(secret).map(Zeroizing::new) else {
            errors.invalid(&path, "REDACTED", "secrets must be base64 encoded");
            continue;
        };
        if !lengths.contains(&secret.len()) {
            let why = format!(
                "secret is not of the expected length, got {}, expected one of {lengths:?}",
                secret.len()
            );
            errors.invalid(&path, "REDACTED", &why);
        }
        keys.push(NamedKey {
            name: name.to_owned(),
            secret,
        });
    }
    keys
}

// upstream: staging/src/k8s.io/apiserver/pkg/apis/apiserver/validation/validation_encryption.go validateKMSConfiguration
fn read_kms(
    value: &Value,
    path: &str,
    names: &mut Vec<String>,
    errors: &mut ConfigErrors,
) -> Option<KmsConfiguration> {
    let known = ["apiVersion", "name", "cachesize", "endpoint", "timeout"];
    let object = errors.object(value, path, &known)?;
    let version = errors.text(object, path, "apiVersion");
    if version != "v2" {
        let path = join(path, "apiVersion");
        let why = match version {
            "" | "v1" => "KMS v1 is deprecated and not supported, set apiVersion to v2",
            _ => "unsupported apiVersion for KMS provider, only v2 is supported",
        };
        errors.invalid(&path, version, why);
    }
    if object.get("cachesize").is_some_and(|size| !size.is_null()) {
        errors.invalid(&join(path, "cachesize"), "", "cachesize is not supported in v2");
    }
    let name = errors.text(object, path, "name");
    validate::check_kms_name(name, &join(path, "name"), names, errors);
    names.push(name.to_owned());
    let endpoint = errors.text(object, path, "endpoint");
    let socket = validate::read_endpoint(endpoint, &join(path, "endpoint"), errors);
    let timeout = errors.text(object, path, "timeout");
    let timeout = validate::read_timeout(timeout, &join(path, "timeout"), errors);
    Some(KmsConfiguration {
        name: name.to_owned(),
        socket: socket?,
        timeout: timeout?,
    })
}
