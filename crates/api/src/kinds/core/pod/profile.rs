//! Seccomp and `AppArmor` profiles, in fields and in the deprecated annotations.

use std::{cell::LazyCell, collections::HashSet};

use serde_json::{Value, json};

use super::{defaults::CONTAINERS, env::validate_local_descending_path, error_list::ErrorListExt, internal};
use crate::{
    field::{Error, Path},
    go,
    strategy::{ErrorList, Tree},
};

/// Annotation for all containers.
pub(super) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// Prefix of the annotation for one container.
pub(super) const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// Prefix of the annotation for one container.
pub(super) const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

const TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const MAX_PROFILE_LENGTH: usize = 4095;

// upstream: pkg/apis/core/validation/validation.go validateSeccompProfileField
pub(super) fn validate_seccomp_profile(profile: &Value, at: &Path<'_>, errors: &mut ErrorList) {
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
            Some(name) => validate_local_descending_path(name, &field_path, errors),
        }
    } else if !name.is_null() {
        let profile_value = internal::internal_value("SeccompProfile", profile);
        errors.invalid(
            &field_path,
            profile_value,
            "can only be set when seccomp type is Localhost",
        );
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidateAppArmorProfileField
pub(super) fn validate_apparmor_profile(profile: &Value, at: &Path<'_>, errors: &mut ErrorList) {
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
            if name.len() > MAX_PROFILE_LENGTH {
                errors.push(Error::too_long(&field_path, MAX_PROFILE_LENGTH));
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

/// The `AppArmor` profile of an annotation, if it is one.
// upstream: pkg/api/pod/util.go ApparmorFieldForAnnotation
pub(super) fn apparmor_field_for_annotation(annotation: &str) -> Option<Value> {
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

/// Validates the profile annotations.
// upstream: pkg/apis/core/validation/validation.go ValidateSeccompPodAnnotations, ValidateAppArmorPodAnnotations
pub(super) fn validate_annotations(annotations: &Value, spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(annotations) = annotations.as_object() else {
        return;
    };
    let texts = || {
        annotations
            .iter()
            .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
    };
    if let Some(profile) = annotations.get(SECCOMP_POD).and_then(Value::as_str) {
        validate_seccomp_annotation(profile, &at.child(SECCOMP_POD), errors);
    }
    for (key, profile) in texts().filter(|(key, _)| key.starts_with(SECCOMP_CONTAINER)) {
        validate_seccomp_annotation(profile, &at.child(key), errors);
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
        let exists =
            matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with("localhost/");
        if !exists {
            let detail = format!("invalid AppArmor profile name: {}", go::quote(profile));
            errors.invalid(&at.key(key), profile, detail);
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidateSeccompProfile
fn validate_seccomp_annotation(profile: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(path) => validate_local_descending_path(path, at, errors),
        None => errors.invalid(at, profile, "must be a valid seccomp profile"),
    }
}

/// On create, a profile may be in both field and annotation if both agree.
// upstream: pkg/apis/core/validation/validation.go validateSeccompAnnotationsAndFields, validateAppArmorAnnotationsAndFieldsMatchOnCreate
pub(super) fn validate_annotations_match_fields(
    metadata: &Value,
    spec: &Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let annotations = metadata.at("annotations");
    if annotations.is_null() {
        return;
    }
    let annotated = |prefix: &str, name: &str| annotations.at(&format!("{prefix}{name}")).as_str();
    if let Some(annotation) = annotations.at(SECCOMP_POD).as_str() {
        let context_at = at.child("securityContext");
        let profile = spec.at_path("securityContext.seccompProfile");
        validate_annotation_matches_field(
            annotation,
            profile,
            "seccomp",
            &context_at.child("seccompProfile"),
            errors,
        );
    }
    visit_containers(spec, at, |container, field_path| {
        if let Some(annotation) = annotated(SECCOMP_CONTAINER, container.text("name")) {
            let context_at = field_path.child("securityContext");
            let profile = container.at_path("securityContext.seccompProfile");
            validate_annotation_matches_field(
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
    visit_containers(spec, at, |container, field_path| {
        if let Some(annotation) = annotated(APPARMOR, container.text("name")) {
            let context_at = field_path.child("securityContext");
            let own = container.at_path("securityContext.appArmorProfile");
            let profile = if own.is_null() {
                spec.at_path("securityContext.appArmorProfile")
            } else {
                own
            };
            validate_annotation_matches_field(
                annotation,
                profile,
                "apparmor",
                &context_at.child("appArmorProfile"),
                errors,
            );
        }
    });
}

/// Calls `visit` for each container with its field path.
// upstream: pkg/api/pod/util.go VisitContainers
pub(super) fn visit_containers<'s>(
    spec: &'s Value,
    at: &Path<'_>,
    mut call: impl FnMut(&'s Value, &Path<'_>),
) {
    for list in CONTAINERS {
        let list_at = at.child(list);
        for (index, container) in spec.items(list).iter().enumerate() {
            call(container, &list_at.index(index));
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validateSeccompAnnotationsAndFieldsMatch
fn validate_annotation_matches_field(
    annotation: &str,
    profile: &Value,
    what: &str,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
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

/// The `AppArmor` profile of an annotation, if it is valid.
pub(super) fn valid_apparmor_field_for_annotation(annotation: &str) -> Option<Value> {
    let profile = apparmor_field_for_annotation(annotation)?;
    let mut errors = ErrorList::new();
    validate_apparmor_profile(&profile, &Path::NIL, &mut errors);
    errors.is_empty().then_some(profile)
}
