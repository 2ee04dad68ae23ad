//! Validation with upstream's error messages.

use std::{collections::HashSet, path::PathBuf, time::Duration};

use super::{ResourceRule, reader::ConfigErrors};
use crate::resource::GroupResource;

/// Default timeout of a call to a KMS plugin.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Checks the names in one list of resources.
// upstream: staging/src/k8s.io/apiserver/pkg/apis/apiserver/validation/validation_encryption.go validateResourceNames
pub(super) fn check_names(names: &[&str], path: &str, errors: &mut ConfigErrors) {
    if names.is_empty() {
        errors.required(path, &format!("at least one {path} is required"));
    }
    check_overlap(names, path, errors);
    for (at, name) in names.iter().enumerate() {
        let resource = GroupResource::parse(name);
        let why = if name.chars().any(char::is_uppercase) {
            "resource name should not contain capital letters"
        } else if *name == "*" {
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
        } else if [
            "apiserveripinfo",
            "serviceipallocations",
            "servicenodeportallocations",
        ]
        .contains(name)
        {
            "resources which do not have REST API/s cannot be encrypted"
        } else if resource.group == "events.k8s.io" {
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file"
        } else if resource.group == "extensions" {
            "'extensions' group has been removed and cannot be used for encryption"
        } else if resource.group == "*" && resource.resource != "*" {
            "encrypting the same resource across groups is not supported"
        } else {
            continue;
        };
        errors.invalid(&format!("{path}[{at}]"), name, why);
    }
}

// upstream: staging/src/k8s.io/apiserver/pkg/apis/apiserver/validation/validation_encryption.go validateResourceOverlap
fn check_overlap(names: &[&str], path: &str, errors: &mut ConfigErrors) {
    let resources: Vec<_> = names.iter().map(|name| GroupResource::parse(name)).collect();
    let all: HashSet<_> = resources.iter().collect();
    let shown = names.join(", ");
    if all.len() < resources.len() {
        errors.invalid(
            path,
            &shown,
            "the same resource cannot be specified multiple times",
        );
    }
    let everything = GroupResource::everything();
    let masks = |resource: &GroupResource| {
        *resource == everything
            || resource.resource == "*"
                && resources
                    .iter()
                    .filter(|other| other.group == resource.group)
                    .count()
                    > 1
    };
    if resources.len() > 1 && resources.iter().any(masks) {
        errors.invalid(
            path,
            &shown,
            "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be \
             masked",
        );
    }
}

/// Checks that no rule is masked by an earlier one.
// upstream: staging/src/k8s.io/apiserver/pkg/server/options/encryptionconfig/config.go getTransformerOverridesAndKMSPluginProbes
pub(super) fn check_masks(rules: &[ResourceRule], errors: &mut ConfigErrors) {
    let mut earlier = HashSet::new();
    for (at, rule) in rules.iter().enumerate() {
        for resource in &rule.resources {
            for mask in [resource.whole_group(), GroupResource::everything()] {
                if earlier.contains(&mask) {
                    let why = format!(
                        "resource {:?} is masked by earlier rule {:?}",
                        resource.to_string(),
                        mask.to_string()
                    );
                    errors.invalid(&format!("resources[{at}].resources"), &resource.to_string(), &why);
                }
            }
        }
        earlier.extend(rule.resources.iter().cloned());
    }
}

// upstream: staging/src/k8s.io/apiserver/pkg/apis/apiserver/validation/validation_encryption.go validateKMSConfigName
pub(super) fn check_kms_name(name: &str, path: &str, others: &[String], errors: &mut ConfigErrors) {
    if name.is_empty() {
        errors.required(path, "name is a mandatory field for a provider");
        return;
    }
    if name.contains(':') {
        let why = format!("invalid KMS provider name {name}, must not contain ':'");
        errors.invalid(path, name, &why);
    }
    if others.iter().any(|other| other == name) {
        let why = format!("duplicate KMS provider name {name}, names must be unique");
        errors.invalid(path, name, &why);
    }
}

/// The socket of a plugin.
// upstream: staging/src/k8s.io/apiserver/pkg/apis/apiserver/validation/validation_encryption.go validateKMSEndpoint
pub(super) fn read_endpoint(endpoint: &str, path: &str, errors: &mut ConfigErrors) -> Option<PathBuf> {
    if endpoint.is_empty() {
        errors.invalid(path, "", "endpoint is a mandatory field for a kms");
        return None;
    }
    let (scheme, rest) = endpoint.split_once("://").unwrap_or(("", endpoint));
    if scheme != "unix" {
        let why = format!("unsupported scheme {scheme:?} for KMS provider, only unix is supported");
        errors.invalid(path, endpoint, &why);
        return None;
    }
    let is_path = rest.starts_with('/') && rest.len() > 1;
    if !is_path {
        errors.invalid(
            path,
            endpoint,
            "the endpoint must have an absolute path, such as unix:///var/run/kms.sock",
        );
        return None;
    }
    Some(rest.into())
}

// upstream: staging/src/k8s.io/apiserver/pkg/apis/apiserver/validation/validation_encryption.go validateKMSTimeout
pub(super) fn read_timeout(text: &str, path: &str, errors: &mut ConfigErrors) -> Option<Duration> {
    if text.is_empty() {
        return Some(TIMEOUT);
    }
    let Ok(timeout) = text.parse::<k3_duration::Duration>() else {
        errors.invalid(path, text, "it is not a duration such as 3s");
        return None;
    };
    match u64::try_from(timeout.nanos()) {
        Ok(nanos) if nanos > 0 => Some(Duration::from_nanos(nanos)),
        _ => {
            errors.invalid(path, text, "timeout should be a positive value");
            None
        }
    }
}
