//! What pods for Windows may have, and what only they may have.

use serde_json::Value;

use super::{profile::visit, report::Report};
use crate::{
    field::Path,
    name::dns1123_subdomain,
    rules::{Errors, Tree},
};

const NOT_HERE: &str = "cannot be set for a windows pod";
const LONGEST_SPEC: usize = 64 * 1024;
const LONGEST_DOMAIN: usize = 256;
const LONGEST_USER: usize = 104;

/// What the security context of a pod for Windows cannot have.
const POD_CONTEXT: [&str; 11] = [
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

/// What that of its containers cannot have.
const CONTAINER_CONTEXT: [&str; 10] = [
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

/// What is wrong with a spec for the system it says it is for.
pub(super) fn validate_os(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    if !spec.has("os") {
        return;
    }
    let os_at = at.child("os");
    match spec.at("os").text("name") {
        "" => errors.required(&os_at.child("name"), ""),
        "linux" => linux(spec, at, errors),
        "windows" => windows(spec, at, errors),
        other => errors.unsupported(&os_at, other, &["linux", "windows"]),
    }
}

fn linux(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mut judge = |holder: &Value, holder_at: &Path<'_>| {
        if holder.at("securityContext").has("windowsOptions") {
            let context_at = holder_at.child("securityContext");
            let detail = "windows options cannot be set for a linux pod";
            errors.forbidden(&context_at.child("windowsOptions"), detail);
        }
    };
    judge(spec, at);
    visit(spec, at, judge);
}

fn windows(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let context_at = at.child("securityContext");
    for name in POD_CONTEXT {
        if spec.at("securityContext").has(name) {
            errors.forbidden(&context_at.child(name), NOT_HERE);
        }
    }
    for (name, set) in [
        ("hostUsers", spec.has("hostUsers")),
        ("hostPID", spec.flag("hostPID")),
        ("hostIPC", spec.flag("hostIPC")),
        ("shareProcessNamespace", spec.has("shareProcessNamespace")),
    ] {
        if set {
            errors.forbidden(&at.child(name), NOT_HERE);
        }
    }
    visit(spec, at, |container, field_path| {
        let context_at = field_path.child("securityContext");
        for name in CONTAINER_CONTEXT {
            if container.at("securityContext").has(name) {
                errors.forbidden(&context_at.child(name), NOT_HERE);
            }
        }
    });
}

/// Containers that are processes of the host come all together, and on the host's network.
pub(super) fn validate_host_processes(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let of_pod = spec.way("securityContext.windowsOptions.hostProcess").as_bool();
    let mut count = 0;
    let mut on_host = 0;
    visit(spec, at, |container, field_path| {
        count += 1;
        let own = container
            .way("securityContext.windowsOptions.hostProcess")
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

/// What is wrong with the options of a security context that are for Windows.
pub(super) fn validate_options(options: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(name) = options.at("gmsaCredentialSpecName").as_str() {
        errors.push_invalid(&at.child("gmsaCredentialSpecName"), name, dns1123_subdomain(name));
    }
    if let Some(spec) = options.at("gmsaCredentialSpec").as_str() {
        let field_path = at.child("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.invalid(&field_path, spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > LONGEST_SPEC {
            errors.invalid(&field_path, spec, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if let Some(user) = options.at("runAsUserName").as_str() {
        let field_path = at.child("runAsUserName");
        for detail in user_faults(user) {
            errors.invalid(&field_path, user, detail);
        }
    }
}

/// What is wrong with `DOMAIN\user`; the domain may be left out.
fn user_faults(name: &str) -> Vec<String> {
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
    if domain.is_some_and(|domain| domain.len() >= LONGEST_DOMAIN) {
        msgs.push(format!(
            "runAsUserName's Domain length must be under {LONGEST_DOMAIN} characters"
        ));
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns(domain)) {
        msgs.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    if user.is_empty() {
        msgs.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > LONGEST_USER {
        msgs.push(format!(
            "runAsUserName's User length must not be longer than {LONGEST_USER} characters"
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

fn is_net_bios(domain: &str) -> bool {
    let bad = |c: char| matches!(c, '\\' | '/' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    (1..=15).contains(&domain.chars().count()) && !domain.starts_with('.') && !domain.contains(bad)
}

fn is_dns(domain: &str) -> bool {
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
    fn users_of_windows_have_a_domain_or_none() {
        for name in ["user", "DOMAIN\\user", "a.b.example\\u"] {
            assert!(user_faults(name).is_empty(), "{name}");
        }
        for (name, msg) in [
            ("a\\b\\c", "more than one backslash"),
            (".x\\u", "Domain doesn't match"),
            ("d\\", "User cannot be empty"),
            ("...", "only periods"),
            ("a@b", "following characters"),
        ] {
            assert!(user_faults(name).iter().any(|text| text.contains(msg)), "{name}");
        }
    }
}
