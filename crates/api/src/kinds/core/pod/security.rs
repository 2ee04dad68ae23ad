//! Security contexts of pods and containers.

use serde_json::Value;

use super::{
    error_list::ErrorListExt,
    internal,
    options::PodValidationOptions,
    profile::{validate_apparmor_profile, validate_seccomp_profile},
    windows,
};
use crate::{
    field::Path,
    kinds::field_checks,
    name::validate_in_range,
    strategy::{ErrorList, Tree},
};

/// The greatest user or group id.
const MAX_ID: i64 = i32::MAX as i64;

const PROC_MOUNTS: [&str; 2] = ["Default", "Unmasked"];
const MAX_SYSCTL_LENGTH: usize = 253;
const INVALID_SYSCTL: &str = "must have at most 253 characters and match regex \
     ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Sysctls of the IPC namespace.
const IPC_SYSCTLS: [&str; 10] = [
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.shm",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.msg",
];

/// A user or group id.
pub(super) fn validate_id(value: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(number) = value.as_i64() {
        for msg in validate_in_range(number, 0, MAX_ID) {
            errors.invalid(at, number, msg);
        }
    }
}

/// A value that must be one of `supported` if it is set.
fn validate_optional_enum(
    object: &Value,
    name: &str,
    supported: &[&str],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if object.has(name) && !supported.contains(&object.text(name)) {
        errors.unsupported(&at.child(name), object.text(name), supported);
    }
}

// upstream: pkg/apis/core/validation/validation.go validatePodSpecSecurityContext
pub(super) fn validate_pod_security_context(
    spec: &Value,
    options: &PodValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let context = spec.at("securityContext");
    if context.is_null() {
        return;
    }
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        validate_id(context.at(name), &at.child(name), errors);
    }
    let groups_at = at.child("supplementalGroups");
    for (index, group) in context.items("supplementalGroups").iter().enumerate() {
        validate_id(group, &groups_at.index(index), errors);
    }
    validate_sysctls(spec, options, &at.child("sysctls"), errors);
    validate_optional_enum(
        context,
        "fsGroupChangePolicy",
        &["Always", "OnRootMismatch"],
        at,
        errors,
    );
    validate_seccomp_profile(context.at("seccompProfile"), &at.child("seccompProfile"), errors);
    windows::validate_windows_options(context.at("windowsOptions"), &at.child("windowsOptions"), errors);
    validate_apparmor_profile(
        context.at("appArmorProfile"),
        &at.child("appArmorProfile"),
        errors,
    );
    validate_optional_enum(
        context,
        "supplementalGroupsPolicy",
        &["Merge", "Strict"],
        at,
        errors,
    );
    validate_optional_enum(
        context,
        "seLinuxChangePolicy",
        &["MountOption", "Recursive"],
        at,
        errors,
    );
}

// upstream: pkg/apis/core/validation/validation.go ValidateSecurityContext
pub(super) fn validate_security_context(
    container: &Value,
    spec: &Value,
    options: &PodValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let context = container.at("securityContext");
    if context.is_null() {
        return;
    }
    for name in ["runAsUser", "runAsGroup"] {
        validate_id(context.at(name), &at.child(name), errors);
    }
    if context.has("procMount") {
        let mount = context.text("procMount");
        let field_path = at.child("procMount");
        if !PROC_MOUNTS.contains(&mount) {
            errors.unsupported(&field_path, mount, &PROC_MOUNTS);
        }
        if mount == "Unmasked" && spec.at("hostUsers").as_bool() != Some(false) {
            errors.invalid(&field_path, mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    validate_seccomp_profile(context.at("seccompProfile"), &at.child("seccompProfile"), errors);
    if context.at("allowPrivilegeEscalation").as_bool() == Some(false) {
        let context_value = internal::internal_value("SecurityContext", context);
        let mut reject = |what: &str| {
            let detail = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
            errors.invalid(at, context_value.clone(), detail);
        };
        if context.flag("privileged") {
            reject("`privileged` to true");
        }
        if !options.allow_sys_admin {
            let added = context.at("capabilities").texts("add");
            for _ in added.filter(|name| *name == "CAP_SYS_ADMIN") {
                reject("`capabilities.Add` CAP_SYS_ADMIN");
            }
        }
    }
    windows::validate_windows_options(context.at("windowsOptions"), &at.child("windowsOptions"), errors);
    validate_apparmor_profile(
        context.at("appArmorProfile"),
        &at.child("appArmorProfile"),
        errors,
    );
}

// upstream: pkg/apis/core/validation/validation.go validateSysctls
fn validate_sysctls(spec: &Value, options: &PodValidationOptions, at: &Path<'_>, errors: &mut ErrorList) {
    let settings = spec.at("securityContext").items("sysctls");
    let repeated = field_checks::duplicate_flags(settings.iter().map(|setting| setting.text("name")));
    for (index, setting) in settings.iter().enumerate() {
        let item_at = at.index(index);
        let name = setting.text("name");
        let field_path = item_at.child("name");
        if name.is_empty() {
            errors.required(&field_path, "");
        } else if !is_valid_sysctl_name(name) {
            errors.invalid(&field_path, name, INVALID_SYSCTL);
        } else if repeated[index] {
            errors.duplicate(&field_path, name);
        }
        if let Some(detail) = host_sysctl_error(name, spec).filter(|_| !options.allow_host_sysctls) {
            errors.invalid(&field_path, name, detail);
        }
    }
}

/// Lower case letters, digits, dashes and underscores, separated by dots or slashes.
// upstream: pkg/apis/core/validation/validation.go IsValidSysctlName
fn is_valid_sysctl_name(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= MAX_SYSCTL_LENGTH
        && name.split(['.', '/']).all(|part| {
            part.starts_with(edge)
                && part.ends_with(edge)
                && part.chars().all(|c| edge(c) || matches!(c, '-' | '_'))
        })
}

/// Why a sysctl cannot be set for the pod, if it belongs to a namespace shared with the host.
// upstream: pkg/apis/core/validation/validation.go ValidateHostSysctl
fn host_sysctl_error(sysctl: &str, spec: &Value) -> Option<&'static str> {
    // With slashes as separators, dots and slashes are swapped.
    let dotted: String = match sysctl.find(['.', '/']) {
        Some(first) if sysctl[first..].starts_with('/') => sysctl
            .chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect(),
        _ => sysctl.to_owned(),
    };
    let name = dotted.split('*').next().unwrap_or_default();
    if spec.flag("hostNetwork") && name.starts_with("net.") {
        return Some("may not be specified when 'hostNetwork' is true");
    }
    let ipc = IPC_SYSCTLS.contains(&name) || name.starts_with("fs.mqueue.");
    (spec.flag("hostIPC") && ipc).then_some("may not be specified when 'hostIPC' is true")
}

/// Whether a spec has sysctls of a namespace shared with the host.
pub(super) fn has_host_sysctls(spec: &Value) -> bool {
    let settings = spec.at("securityContext").items("sysctls");
    settings
        .iter()
        .any(|setting| host_sysctl_error(setting.text("name"), spec).is_some())
}
