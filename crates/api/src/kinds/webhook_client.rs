//! `WebhookClientConfig`: a webhook is called by a URL, or as a service of the cluster.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    field_checks,
    url::{Url, UrlForm},
};
use crate::{
    field::{Error, Path},
    name,
    strategy::{ErrorList, Tree, TreeMut},
};

/// Versions of `AdmissionReview` and `ConversionReview` that this server sends.
pub(super) const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

const DESIRED_FORMAT: &str = "; desired format: https://host[/path]";

/// Sets the default port of the service.
// upstream: pkg/apis/admissionregistration/v1/defaults.go SetDefaults_ServiceReference
pub(super) fn set_defaults_service_reference(config: &mut Value) {
    if let Some(service) = config.at_mut("service") {
        service.set_default("port", 443);
    }
}

/// Validates a client config: exactly one of `url` and `service`.
// upstream: pkg/apis/admissionregistration/validation/validation.go validateValidatingWebhook
pub(super) fn validate_client_config(config: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match (config.has("url"), config.has("service")) {
        (true, false) => validate_webhook_url(config.text("url"), &at.child("url"), errors),
        (false, true) => validate_webhook_service(config.at("service"), &at.child("service"), errors),
        _ => errors.push(Error::required(at, "exactly one of url or service is required")),
    }
}

/// Validates the review versions that a webhook accepts; `none` is the message if it accepts none.
// upstream: pkg/apis/admissionregistration/validation/validation.go validateAdmissionReviewVersions
pub(super) fn validate_review_versions(versions: &Value, none: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if version_names(versions).next().is_none() {
        errors.push(Error::required(at, none));
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in version_names(versions).enumerate() {
        let field_path = at.index(index);
        if seen.insert(version) {
            field_checks::push_invalid(
                version,
                name::validate_dns1035_label(version),
                &field_path,
                errors,
            );
        } else {
            errors.push(Error::invalid(&field_path, version, "duplicate version"));
        }
    }
}

/// One of the versions, if there are any, must be known to this server.
// upstream: pkg/apis/admissionregistration/validation/validation.go validateAdmissionReviewVersions
pub(super) fn validate_known_review_version(versions: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let is_known = |version: &str| REVIEW_VERSIONS.contains(&version);
    if version_names(versions).next().is_some() && !version_names(versions).any(is_known) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(Error::invalid(at, versions, detail));
    }
}

fn version_names(versions: &Value) -> impl Iterator<Item = &str> {
    let items = versions.as_array().into_iter().flatten();
    items.filter_map(Value::as_str)
}

// upstream: staging/src/k8s.io/apiserver/pkg/util/webhook/validation.go ValidateWebhookURL
fn validate_webhook_url(text: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let url = match Url::parse(text, UrlForm::Reference) {
        Ok(url) => url,
        Err(msg) => {
            let detail = format!("url must be a valid URL: {msg}{DESIRED_FORMAT}");
            errors.push(Error::required(at, detail));
            return;
        }
    };
    if url.scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{DESIRED_FORMAT}");
        errors.push(Error::invalid(at, url.scheme, detail));
    }
    if url.host.is_empty() {
        errors.push(Error::invalid(
            at,
            url.host,
            format!("host must be specified{DESIRED_FORMAT}"),
        ));
    }
    if let Some(user) = url.user {
        errors.push(Error::invalid(
            at,
            user,
            "user information is not permitted in the URL",
        ));
    }
    if !url.fragment.is_empty() {
        errors.push(Error::invalid(
            at,
            url.fragment,
            "fragments are not permitted in the URL",
        ));
    }
    if !url.query.is_empty() {
        let detail = "query parameters are not permitted in the URL";
        errors.push(Error::invalid(at, url.query, detail));
    }
}

// upstream: staging/src/k8s.io/apiserver/pkg/util/webhook/validation.go ValidateWebhookService; upstream reports a missing namespace at "name" and a missing name at "namespace"
fn validate_webhook_service(service: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for (field, reported_field) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(field).is_empty() {
            errors.push(Error::required(&at.child(reported_field), ""));
        }
    }
    let port = service.int_or_zero("port");
    let msgs = name::validate_port_number(port);
    if !msgs.is_empty() {
        let detail = format!("port is not valid: {}", msgs.join(", "));
        errors.push(Error::invalid(&at.child("port"), port, detail));
    }
    validate_service_path(service.text("path"), &at.child("path"), errors);
}

fn validate_service_path(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if matches!(path, "" | "/") {
        return;
    }
    if path == "//" {
        errors.push(Error::invalid(at, path, "segment[0] may not be empty"));
        return;
    }
    if !path.starts_with('/') {
        errors.push(Error::invalid(at, path, "must start with a '/'"));
    }
    let mut rest = path.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            let detail = format!("segment[{index}] may not be empty");
            errors.push(Error::invalid(at, path, detail));
        } else {
            errors.extend(
                name::validate_dns1123_subdomain(step)
                    .into_iter()
                    .map(|msg| Error::invalid(at, path, format!("segment[{index}]: {msg}"))),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(config: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate_client_config(config, &Path::new("c"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rejects_urls_other_than_plain_https() {
        assert_eq!(messages(&json!({"url": "https://host/path"})), [] as [&str; 0]);
        assert_eq!(
            messages(&json!({"url": "http://u@host?q#f"})),
            [
                "c.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                "c.url: Invalid value: \"u\": user information is not permitted in the URL",
                "c.url: Invalid value: \"f\": fragments are not permitted in the URL",
                "c.url: Invalid value: \"q\": query parameters are not permitted in the URL",
            ]
        );
    }

    #[test]
    fn rejects_incomplete_service_references() {
        let mut config = json!({"service": {"namespace": "n", "name": "s", "path": "/a/b"}});
        set_defaults_service_reference(&mut config);
        assert_eq!(messages(&config), [] as [&str; 0]);
        config["service"]["path"] = json!("a//");
        config["service"]["namespace"] = json!("");
        assert_eq!(
            messages(&config),
            [
                "c.service.name: Required value",
                "c.service.path: Invalid value: \"a//\": must start with a '/'",
                "c.service.path: Invalid value: \"a//\": segment[0] may not be empty",
                "c.service.path: Invalid value: \"a//\": segment[1] may not be empty",
            ]
        );
        assert_eq!(
            messages(&json!({})),
            ["c: Required value: exactly one of url or service is required"]
        );
    }
}
