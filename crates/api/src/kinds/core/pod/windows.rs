//! Fields of Windows pods, and fields that only they may have.

use serde_json::Value;

use super::{error_list::ErrorListExt, profile::visit_containers};
use crate::{
    field::Path,
    name::validate_dns1123_subdomain,
    strategy::{ErrorList, Tree},
};

const NOT_FOR_WINDOWS: &str = "cannot be set for a windows pod";
const MAX_CREDENTIAL_SPEC_LENGTH: usize = 64 * 1024;
const MAX_DOMAIN_LENGTH: usize = 256;
const MAX_USER_LENGTH: usize = 104;

/// Fields of the pod security context that Windows pods cannot have.
const FORBIDDEN_POD_CONTEXT: [&str; 11] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];

/// Fields of container security contexts that Windows pods cannot have.
const FORBIDDEN_CONTAINER_CONTEXT: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Validates a spec for its operating system.
// upstream: pkg/apis/core/validation/validation.go validateOS
pub(super) fn validate_os(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if !spec.has("os") {
        return;
    }
    let os_at = at.child("os");
    match spec.at("os").text("name") {
        "" => errors.required(&os_at.child("name"), ""),
        "linux" => validate_linux(spec, at, errors),
        "windows" => validate_windows(spec, at, errors),
        other => errors.unsupported(&os_at, other, &["linux", "windows"]),
    }
}

// upstream: pkg/apis/core/validation/validation.go validateLinux
fn validate_linux(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let mut validate_holder = |holder: &Value, holder_at: &Path<'_>| {
        if holder.at("securityContext").has("windowsOptions") {
            let context_at = holder_at.child("securityContext");
            let detail = "windows options cannot be set for a linux pod";
            errors.forbidden(&context_at.child("windowsOptions"), detail);
        }
    };
    validate_holder(spec, at);
    visit_containers(spec, at, validate_holder);
}

// upstream: pkg/apis/core/validation/validation.go validateWindows
fn validate_windows(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let context_at = at.child("securityContext");
    for name in FORBIDDEN_POD_CONTEXT {
        if spec.at("securityContext").has(name) {
            errors.forbidden(&context_at.child(name), NOT_FOR_WINDOWS);
        }
    }
    for (name, set) in [
        ("hostUsers", spec.has("hostUsers")),
        ("hostPID", spec.flag("hostPID")),
        ("hostIPC", spec.flag("hostIPC")),
        ("shareProcessNamespace", spec.has("shareProcessNamespace")),
    ] {
        if set {
            errors.forbidden(&at.child(name), NOT_FOR_WINDOWS);
        }
    }
    visit_containers(spec, at, |container, field_path| {
        let context_at = field_path.child("securityContext");
        for name in FORBIDDEN_CONTAINER_CONTEXT {
            if container.at("securityContext").has(name) {
                errors.forbidden(&context_at.child(name), NOT_FOR_WINDOWS);
            }
        }
    });
}

/// HostProcess containers require all containers to be such, and the host network.
// upstream: pkg/apis/core/validation/validation.go validateWindowsHostProcessPod
pub(super) fn validate_host_processes(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let of_pod = spec
        .at_path("securityContext.windowsOptions.hostProcess")
        .as_bool();
    let mut count = 0;
    let mut on_host = 0;
    visit_containers(spec, at, |container, field_path| {
        count += 1;
        let own = container
            .at_path("securityContext.windowsOptions.hostProcess")
            .as_bool();
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let context_at = field_path.child("securityContext");
            let options_at = context_at.child("windowsOptions");
            let detail =
                format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            errors.invalid(&options_at.child("hostProcess"), Value::Bool(own), detail);
        }
        on_host += usize::from(own.or(of_pod) == Some(true));
    });
    if on_host == 0 {
        return;
    }
    if on_host != count {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(at, "", detail);
    }
    if !spec.flag("hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&at.child("hostNetwork"), Value::Bool(false), detail);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateWindowsSecurityContextOptions
pub(super) fn validate_windows_options(options: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(name) = options.at("gmsaCredentialSpecName").as_str() {
        errors.push_invalid(
            &at.child("gmsaCredentialSpecName"),
            name,
            validate_dns1123_subdomain(name),
        );
    }
    if let Some(spec) = options.at("gmsaCredentialSpec").as_str() {
        let field_path = at.child("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.invalid(&field_path, spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > MAX_CREDENTIAL_SPEC_LENGTH {
            errors.invalid(&field_path, spec, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if let Some(user) = options.at("runAsUserName").as_str() {
        let field_path = at.child("runAsUserName");
        for detail in invalid_user_messages(user) {
            errors.invalid(&field_path, user, detail);
        }
    }
}

/// Errors of `DOMAIN\\user`; the domain is optional.
// upstream: pkg/apis/core/validation/validation.go validateWindowsSecurityContextOptions
fn invalid_user_messages(name: &str) -> Vec<String> {
    let alone = |text: &str| vec![text.to_owned()];
    if name.is_empty() {
        return alone("runAsUserName cannot be an empty string");
    }
    if name.chars().any(|c| c.is_ascii_control()) {
        return alone("runAsUserName cannot contain control characters");
    }
    let mut parts = name.split('\\');
    let (domain, user) = match (parts.next(), parts.next(), parts.next()) {
        (Some(user), None, _) => (None, user),
        (Some(domain), Some(user), None) => (Some(domain), user),
        _ => return alone("runAsUserName cannot contain more than one backslash"),
    };
    let mut msgs = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= MAX_DOMAIN_LENGTH) {
        msgs.push(format!(
            "runAsUserName's Domain length must be under {MAX_DOMAIN_LENGTH} characters"
        ));
    }
    if domain.is_some_and(|domain| !is_netbios_name(domain) && !is_dns_domain(domain)) {
        msgs.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    if user.is_empty() {
        msgs.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > MAX_USER_LENGTH {
        msgs.push(format!(
            "runAsUserName's User length must not be longer than {MAX_USER_LENGTH} characters"
        ));
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        msgs.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains([
        '"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']',
    ]) {
        msgs.push(
            "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]".to_owned(),
        );
    }
    msgs
}

fn is_netbios_name(domain: &str) -> bool {
    let bad = |c: char| matches!(c, '\\' | '/' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    (1..=15).contains(&domain.chars().count()) && !domain.starts_with('.') && !domain.contains(bad)
}

fn is_dns_domain(domain: &str) -> bool {
    domain.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_windows_user_names() {
        for name in ["user", "DOMAIN\\user", "a.b.example\\u"] {
            assert!(invalid_user_messages(name).is_empty(), "{name}");
        }
        for (name, msg) in [
            ("a\\b\\c", "more than one backslash"),
            (".x\\u", "Domain doesn't match"),
            ("d\\", "User cannot be empty"),
            ("...", "only periods"),
            ("a@b", "following characters"),
        ] {
            assert!(
                invalid_user_messages(name).iter().any(|text| text.contains(msg)),
                "{name}"
            );
        }
    }
}
