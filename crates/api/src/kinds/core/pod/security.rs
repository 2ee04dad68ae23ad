//! Security contexts of pods and containers.

use serde_json::Value;

use super::{
    internal,
    options::Options,
    profile::{apparmor, seccomp},
    report::Report,
    windows,
};
use crate::{
    field::Path,
    kinds::field_checks,
    name::in_range,
    rules::{Errors, Tree},
};

/// The greatest number of a user or group.
const MAX_ID: i64 = i32::MAX as i64;

const PROC_MOUNTS: [&str; 2] = ["Default", "Unmasked"];
const LONGEST_SYSCTL: usize = 253;
const SYSCTL_RULE: &str = "must have at most 253 characters and match regex \
     ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// The kernel settings of the namespace for communication between processes.
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

/// The number of a user or group.
pub(super) fn id(value: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(number) = value.as_i64() {
        for msg in in_range(number, 0, MAX_ID) {
            errors.invalid(at, number, msg);
        }
    }
}

/// A word that may be missing but else is one of some.
fn choice(object: &Value, name: &str, supported: &[&str], at: &Path<'_>, errors: &mut Errors) {
    if object.has(name) && !supported.contains(&object.text(name)) {
        errors.unsupported(&at.child(name), object.text(name), supported);
    }
}

/// What is wrong with the security context of a pod.
pub(super) fn validate_pod(spec: &Value, options: &Options, at: &Path<'_>, errors: &mut Errors) {
    let context = spec.at("securityContext");
    if context.is_null() {
        return;
    }
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(context.at(name), &at.child(name), errors);
    }
    let groups_at = at.child("supplementalGroups");
    for (index, group) in context.items("supplementalGroups").iter().enumerate() {
        id(group, &groups_at.index(index), errors);
    }
    sysctls(spec, options, &at.child("sysctls"), errors);
    choice(
        context,
        "fsGroupChangePolicy",
        &["Always", "OnRootMismatch"],
        at,
        errors,
    );
    seccomp(context.at("seccompProfile"), &at.child("seccompProfile"), errors);
    windows::validate_options(context.at("windowsOptions"), &at.child("windowsOptions"), errors);
    apparmor(
        context.at("appArmorProfile"),
        &at.child("appArmorProfile"),
        errors,
    );
    choice(
        context,
        "supplementalGroupsPolicy",
        &["Merge", "Strict"],
        at,
        errors,
    );
    choice(
        context,
        "seLinuxChangePolicy",
        &["MountOption", "Recursive"],
        at,
        errors,
    );
}

/// What is wrong with the security context of a container.
pub(super) fn validate_container(
    container: &Value,
    spec: &Value,
    options: &Options,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let context = container.at("securityContext");
    if context.is_null() {
        return;
    }
    for name in ["runAsUser", "runAsGroup"] {
        id(context.at(name), &at.child(name), errors);
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
    seccomp(context.at("seccompProfile"), &at.child("seccompProfile"), errors);
    if context.at("allowPrivilegeEscalation").as_bool() == Some(false) {
        let shown = internal::shown("SecurityContext", context);
        let mut refuse = |what: &str| {
            let detail = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
            errors.invalid(at, shown.clone(), detail);
        };
        if context.flag("privileged") {
            refuse("`privileged` to true");
        }
        if !options.sys_admin {
            let added = context.at("capabilities").texts("add");
            for _ in added.filter(|name| *name == "CAP_SYS_ADMIN") {
                refuse("`capabilities.Add` CAP_SYS_ADMIN");
            }
        }
    }
    windows::validate_options(context.at("windowsOptions"), &at.child("windowsOptions"), errors);
    apparmor(
        context.at("appArmorProfile"),
        &at.child("appArmorProfile"),
        errors,
    );
}

fn sysctls(spec: &Value, options: &Options, at: &Path<'_>, errors: &mut Errors) {
    let settings = spec.at("securityContext").items("sysctls");
    let repeated = field_checks::duplicate_flags(settings.iter().map(|setting| setting.text("name")));
    for (index, setting) in settings.iter().enumerate() {
        let item_at = at.index(index);
        let name = setting.text("name");
        let field_path = item_at.child("name");
        if name.is_empty() {
            errors.required(&field_path, "");
        } else if !is_sysctl(name) {
            errors.invalid(&field_path, name, SYSCTL_RULE);
        } else if repeated[index] {
            errors.duplicate(&field_path, name);
        }
        if let Some(detail) = shared_with_host(name, spec).filter(|_| !options.host_sysctls) {
            errors.invalid(&field_path, name, detail);
        }
    }
}

/// Small letters, digits, dashes and underscores, parted by dots or slashes.
fn is_sysctl(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= LONGEST_SYSCTL
        && name.split(['.', '/']).all(|part| {
            part.starts_with(edge)
                && part.ends_with(edge)
                && part.chars().all(|c| edge(c) || matches!(c, '-' | '_'))
        })
}

/// Why a kernel setting cannot be the pod's own, if it cannot.
fn shared_with_host(sysctl: &str, spec: &Value) -> Option<&'static str> {
    // Written with slashes, dots and slashes change places.
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

/// Whether a spec has kernel settings of a namespace it shares with the host.
pub(super) fn has_host_sysctls(spec: &Value) -> bool {
    let settings = spec.at("securityContext").items("sysctls");
    settings
        .iter()
        .any(|setting| shared_with_host(setting.text("name"), spec).is_some())
}
