//! Pod Security checks of AppArmor, seccomp and SELinux.

use k3_api::{go, strategy::Tree};
use serde_json::Value;

use super::super::violation::{Pod, UniqueValues, Violation, ViolationSources, containers, plural, quoted};

/// Where profiles stood before they were fields.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// The types of `SELinux` that containers may have, the last of them from v1.31 on.
const SE_LINUX: [&str; 5] = [
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];

/// Profiles of `AppArmor` that confine less than the usual one.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_appArmorProfile.go CheckAppArmorProfile
pub(super) fn app_armor(pod: &Pod<'_>) -> Option<Violation> {
    let (offenders, values) = profiles(pod, "appArmorProfile");
    let mut annotations: Vec<_> = pod
        .annotations
        .iter()
        .filter(|(key, _)| key.starts_with(APP_ARMOR))
        // What is not text is no profile that is allowed.
        .filter(|(_, value)| {
            value.as_str().is_none_or(|value| {
                !value.is_empty() && value != "runtime/default" && !value.starts_with("localhost/")
            })
        })
        .map(|(key, value)| match value.as_str() {
            Some(value) => format!("{key}={}", go::quote(value)),
            None => format!("{key}={value}"),
        })
        .collect();
    annotations.sort();
    let mut setters = Vec::new();
    if !offenders.is_empty() {
        setters.push(offenders.to_string());
    }
    if !annotations.is_empty() {
        setters.push(plural("annotation", "annotations", annotations.len()).to_owned());
    }
    if setters.is_empty() {
        return None;
    }
    let values: Vec<_> = values.into_iter().map(String::from).chain(annotations).collect();
    Some(Violation::new(
        plural(
            "forbidden AppArmor profile",
            "forbidden AppArmor profiles",
            values.len(),
        ),
        format!(
            "{} must not set AppArmor profile type to {}",
            setters.join(" and "),
            quoted(&values)
        ),
    ))
}

/// `SELinux` as it was understood at first.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_seLinuxOptions.go CheckSELinuxOptions
pub(super) fn se_linux_0(pod: &Pod<'_>) -> Option<Violation> {
    se_linux(pod, &SE_LINUX[..4])
}

/// `SELinux` with one type more.
pub(super) fn se_linux_31(pod: &Pod<'_>) -> Option<Violation> {
    se_linux(pod, &SE_LINUX)
}

fn se_linux(pod: &Pod<'_>, allowed: &[&str]) -> Option<Violation> {
    let mut types = UniqueValues::new();
    let mut sets_user = false;
    let mut sets_role = false;
    let offenders = pod.offenders(|context| {
        let options = context.at("seLinuxOptions");
        let wanted = options.text("type");
        let is_bad = !allowed.contains(&wanted);
        if is_bad {
            types.insert(wanted.into());
        }
        let user = !options.text("user").is_empty();
        let role = !options.text("role").is_empty();
        sets_user |= user;
        sets_role |= role;
        is_bad || user || role
    });
    if offenders.is_empty() {
        return None;
    }
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!(
            "{} {}",
            plural("type", "types", types.len()),
            quoted(&types)
        ));
    }
    if sets_user {
        data.push("user may not be set".to_owned());
    }
    if sets_role {
        data.push("role may not be set".to_owned());
    }
    let data = data.join("; ");
    Some(Violation::new(
        "seLinuxOptions",
        format!("{offenders} set forbidden securityContext.seLinuxOptions: {data}"),
    ))
}

/// Seccomp when it was a matter of annotations.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_seccompProfile_baseline.go CheckSeccompBaseline
pub(super) fn seccomp_annotations(pod: &Pod<'_>) -> Option<Violation> {
    let of_containers = pod
        .containers()
        .map(|container| format!("{SECCOMP_CONTAINER}{}", container.text("name")));
    let mut forbidden = UniqueValues::new();
    for key in std::iter::once(SECCOMP_POD.to_owned()).chain(of_containers) {
        let Some(value) = pod.annotations.get(&key).and_then(Value::as_str) else {
            continue;
        };
        if value != "runtime/default" && value != "docker/default" && !value.starts_with("localhost/") {
            forbidden.insert(format!("{key}={}", go::quote(value)).into());
        }
    }
    if forbidden.is_empty() {
        return None;
    }
    let noun = plural("annotation", "annotations", forbidden.len());
    let forbidden: Vec<_> = forbidden.into_iter().collect();
    Some(Violation::new(
        "seccompProfile",
        format!("forbidden {noun} {}", forbidden.join(", ")),
    ))
}

/// Profiles of seccomp that confine less than the usual one.
pub(super) fn seccomp_allowed(pod: &Pod<'_>) -> Option<Violation> {
    let (offenders, values) = profiles(pod, "seccompProfile");
    if offenders.is_empty() {
        return None;
    }
    Some(Violation::new(
        "seccompProfile",
        format!(
            "{offenders} must not set securityContext.seccompProfile.type to {}",
            quoted(&values)
        ),
    ))
}

/// The same, and containers without a profile.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_seccompProfile_restricted.go CheckSeccompProfileRestricted
pub(super) fn seccomp_set(pod: &Pod<'_>) -> Option<Violation> {
    if let Some(violation) = seccomp_allowed(pod) {
        return Some(violation);
    }
    let has = |of: &Value| of.at("securityContext").has("seccompProfile");
    if has(pod.spec) {
        return None;
    }
    let without = pod.containers_that(|container| !has(container));
    if without.is_empty() {
        return None;
    }
    Some(Violation::new(
        "seccompProfile",
        format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers(&without)
        ),
    ))
}

/// Who sets a profile that is neither the usual one nor one of the node's, and which.
fn profiles<'p>(pod: &Pod<'p>, field: &str) -> (ViolationSources<'p>, UniqueValues<'p>) {
    let mut values = UniqueValues::new();
    let offenders = pod.offenders(|context| {
        let profile = context.at(field).text("type");
        let is_bad = context.has(field) && profile != "RuntimeDefault" && profile != "Localhost";
        if is_bad {
            values.insert(profile.into());
        }
        is_bad
    });
    (offenders, values)
}
