//! Profiles of seccomp and `AppArmor`: as fields, and as the annotations they once were.

use std::{cell::LazyCell, collections::HashSet};

use serde_json::{Value, json};

use super::{defaults::CONTAINERS, env::descending, internal, report::Report};
use crate::{
    field::{Error, Path},
    go,
    rules::{Errors, Tree},
};

/// The annotation for all containers.
pub(super) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// The annotation for one container begins so.
pub(super) const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// The annotation for one container begins so.
pub(super) const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

const TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const LONGEST_PROFILE: usize = 4095;

/// What is wrong with a seccomp profile.
pub(super) fn seccomp(profile: &Value, at: &Path<'_>, errors: &mut Errors) {
    if profile.is_null() {
        return;
    }
    match profile.text("type") {
        "" => errors.required(&at.child("type"), "type is required when seccompProfile is set"),
        ty if !TYPES.contains(&ty) => errors.unsupported(&at.child("type"), ty, &TYPES),
        _ => {}
    }
    let name = profile.at("localhostProfile");
    let field_path = at.child("localhostProfile");
    if profile.text("type") == "Localhost" {
        match name.as_str() {
            None => errors.required(&field_path, "must be set when seccomp type is Localhost"),
            Some(name) => descending(name, &field_path, errors),
        }
    } else if !name.is_null() {
        let shown = internal::shown("SeccompProfile", profile);
        errors.invalid(
            &field_path,
            shown,
            "can only be set when seccomp type is Localhost",
        );
    }
}

/// What is wrong with an `AppArmor` profile.
pub(super) fn apparmor(profile: &Value, at: &Path<'_>, errors: &mut Errors) {
    const NEEDED: &str = "must be set when AppArmor type is Localhost";
    if profile.is_null() {
        return;
    }
    let name = profile.at("localhostProfile");
    let field_path = at.child("localhostProfile");
    match (profile.text("type"), name.as_str()) {
        ("Localhost", None) => errors.required(&field_path, NEEDED),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                errors.invalid(&field_path, name, "must not be padded with whitespace");
            } else if name.is_empty() {
                errors.required(&field_path, NEEDED);
            }
            if name.len() > LONGEST_PROFILE {
                errors.push(Error::too_long(&field_path, LONGEST_PROFILE));
            }
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            errors.invalid(
                &field_path,
                name,
                "can only be set when AppArmor type is Localhost",
            );
        }
        ("", _) => errors.required(&at.child("type"), "type is required when appArmorProfile is set"),
        (ty, _) => errors.unsupported(&at.child("type"), ty, &TYPES),
    }
}

/// The `AppArmor` profile an annotation means, if it means one.
pub(super) fn apparmor_of(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        _ => {
            let name = annotation
                .strip_prefix("localhost/")
                .filter(|name| !name.is_empty())?;
            Some(json!({"type": "Localhost", "localhostProfile": name}))
        }
    }
}

/// What is wrong with the annotations for profiles.
pub(super) fn validate_annotations(annotations: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(annotations) = annotations.as_object() else {
        return;
    };
    let texts = || {
        annotations
            .iter()
            .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
    };
    if let Some(profile) = annotations.get(SECCOMP_POD).and_then(Value::as_str) {
        seccomp_annotation(profile, &at.child(SECCOMP_POD), errors);
    }
    for (key, profile) in texts().filter(|(key, _)| key.starts_with(SECCOMP_CONTAINER)) {
        seccomp_annotation(profile, &at.child(key), errors);
    }
    let names = LazyCell::new(|| -> HashSet<&str> {
        let containers = super::options::containers(spec);
        containers.map(|container| container.text("name")).collect()
    });
    for (key, profile) in texts() {
        let Some(name) = key.strip_prefix(APPARMOR) else {
            continue;
        };
        if !names.contains(name) {
            errors.invalid(&at.key(key), name, "container not found");
        }
        let known =
            matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with("localhost/");
        if !known {
            let detail = format!("invalid AppArmor profile name: {}", go::quote(profile));
            errors.invalid(&at.key(key), profile, detail);
        }
    }
}

fn seccomp_annotation(profile: &str, at: &Path<'_>, errors: &mut Errors) {
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(path) => descending(path, at, errors),
        None => errors.invalid(at, profile, "must be a valid seccomp profile"),
    }
}

/// A new pod may name a profile by field and annotation, if both name the same.
pub(super) fn validate_agreement(metadata: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let annotations = metadata.at("annotations");
    if annotations.is_null() {
        return;
    }
    let annotated = |prefix: &str, name: &str| annotations.at(&format!("{prefix}{name}")).as_str();
    if let Some(annotation) = annotations.at(SECCOMP_POD).as_str() {
        let context_at = at.child("securityContext");
        let profile = spec.way("securityContext.seccompProfile");
        agree(
            annotation,
            profile,
            "seccomp",
            &context_at.child("seccompProfile"),
            errors,
        );
    }
    visit(spec, at, |container, field_path| {
        if let Some(annotation) = annotated(SECCOMP_CONTAINER, container.text("name")) {
            let context_at = field_path.child("securityContext");
            let profile = container.way("securityContext.seccompProfile");
            agree(
                annotation,
                profile,
                "seccomp",
                &context_at.child("seccompProfile"),
                errors,
            );
        }
    });
    if spec.at("os").text("name") == "windows" {
        return;
    }
    visit(spec, at, |container, field_path| {
        if let Some(annotation) = annotated(APPARMOR, container.text("name")) {
            let context_at = field_path.child("securityContext");
            let own = container.way("securityContext.appArmorProfile");
            let profile = if own.is_null() {
                spec.way("securityContext.appArmorProfile")
            } else {
                own
            };
            agree(
                annotation,
                profile,
                "apparmor",
                &context_at.child("appArmorProfile"),
                errors,
            );
        }
    });
}

/// Calls for each container with its place.
pub(super) fn visit<'s>(spec: &'s Value, at: &Path<'_>, mut judge: impl FnMut(&'s Value, &Path<'_>)) {
    for list in CONTAINERS {
        let list_at = at.child(list);
        for (index, container) in spec.items(list).iter().enumerate() {
            judge(container, &list_at.index(index));
        }
    }
}

fn agree(annotation: &str, profile: &Value, what: &str, at: &Path<'_>, errors: &mut Errors) {
    let type_matches = match profile.text("type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => {
            annotation == "runtime/default" || (what == "seccomp" && annotation == "docker/default")
        }
        "Localhost" => match annotation.strip_prefix("localhost/") {
            Some(name) if profile.at("localhostProfile").as_str() != Some(name) => {
                let detail = format!("{what} profile in annotation and field must match");
                return errors.forbidden(&at.child("localhostProfile"), detail);
            }
            other => other.is_some(),
        },
        _ => true,
    };
    if !type_matches {
        let detail = format!("{what} type in annotation and field must match");
        errors.forbidden(&at.child("type"), detail);
    }
}

/// The `AppArmor` profile an annotation means, if it means a valid one.
pub(super) fn valid_apparmor_of(annotation: &str) -> Option<Value> {
    let profile = apparmor_of(annotation)?;
    let mut errors = Errors::new();
    apparmor(&profile, &Path::NOWHERE, &mut errors);
    errors.is_empty().then_some(profile)
}
