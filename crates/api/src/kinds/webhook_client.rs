//! How a webhook is called: by a URL, or as a service of the cluster.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    demand,
    url::{Form, Url},
};
use crate::{
    field::{Error, Path},
    name,
    strategy::{ErrorList, Tree, TreeMut},
};

/// The versions of reviews that this server writes.
pub(super) const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

const FORM: &str = "; desired format: https://host[/path]";

/// Fills in the port of a service.
pub(super) fn default(config: &mut Value) {
    if let Some(service) = config.at_mut("service") {
        service.set_default("port", 443);
    }
}

/// What is wrong with a way to call a webhook.
pub(super) fn validate(config: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match (config.has("url"), config.has("service")) {
        (true, false) => url(config.text("url"), &at.child("url"), errors),
        (false, true) => service(config.at("service"), &at.child("service"), errors),
        _ => errors.push(Error::required(at, "exactly one of url or service is required")),
    }
}

/// What is wrong with the versions of reviews a webhook takes; `none` is told if it takes none. One must be `known` if
/// all were before.
pub(super) fn review_versions(versions: &Value, known: bool, none: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let items = || {
        let items = versions.as_array().into_iter().flatten();
        items.filter_map(Value::as_str)
    };
    if items().next().is_none() {
        errors.push(Error::required(at, none));
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in items().enumerate() {
        let place = at.index(index);
        if seen.insert(version) {
            demand::tell(version, name::validate_dns1035_label(version), &place, errors);
        } else {
            errors.push(Error::invalid(&place, version, "duplicate version"));
        }
    }
    if known && !items().any(|version| REVIEW_VERSIONS.contains(&version)) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(Error::invalid(at, versions, detail));
    }
}

fn url(text: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let url = match Url::parse(text, Form::Reference) {
        Ok(url) => url,
        Err(fault) => {
            let detail = format!("url must be a valid URL: {fault}{FORM}");
            errors.push(Error::required(at, detail));
            return;
        }
    };
    if url.scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(Error::invalid(at, url.scheme, detail));
    }
    if url.host.is_empty() {
        errors.push(Error::invalid(
            at,
            url.host,
            format!("host must be specified{FORM}"),
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

fn service(service: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    // Clients know it this way round: a missing namespace is told as a missing name.
    for (given, told) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(given).is_empty() {
            errors.push(Error::required(&at.child(told), ""));
        }
    }
    let port = service.int("port").unwrap_or_default();
    let faults = name::validate_port_number(port);
    if !faults.is_empty() {
        let detail = format!("port is not valid: {}", faults.join(", "));
        errors.push(Error::invalid(&at.child("port"), port, detail));
    }
    path(service.text("path"), &at.child("path"), errors);
}

fn path(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
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
                    .map(|fault| Error::invalid(at, path, format!("segment[{index}]: {fault}"))),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(config: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate(config, &Path::new("c"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_webhook_is_called_by_https_alone() {
        assert_eq!(told(&json!({"url": "https://host/path"})), [] as [&str; 0]);
        assert_eq!(
            told(&json!({"url": "http://u@host?q#f"})),
            [
                "c.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                "c.url: Invalid value: \"u\": user information is not permitted in the URL",
                "c.url: Invalid value: \"f\": fragments are not permitted in the URL",
                "c.url: Invalid value: \"q\": query parameters are not permitted in the URL",
            ]
        );
    }

    #[test]
    fn a_service_has_a_name_a_namespace_and_a_path_of_names() {
        let mut config = json!({"service": {"namespace": "n", "name": "s", "path": "/a/b"}});
        default(&mut config);
        assert_eq!(told(&config), [] as [&str; 0]);
        config["service"]["path"] = json!("a//");
        config["service"]["namespace"] = json!("");
        assert_eq!(
            told(&config),
            [
                "c.service.name: Required value",
                "c.service.path: Invalid value: \"a//\": must start with a '/'",
                "c.service.path: Invalid value: \"a//\": segment[0] may not be empty",
                "c.service.path: Invalid value: \"a//\": segment[1] may not be empty",
            ]
        );
        assert_eq!(
            told(&json!({})),
            ["c: Required value: exactly one of url or service is required"]
        );
    }
}
