//! Probes and lifecycle hooks.

use serde_json::Value;

use super::error_list::ErrorListExt;
use crate::{
    field::Path,
    name::{validate_http_header_name, validate_port_name, validate_port_number},
    strategy::{ErrorList, Tree},
};

const ONE_HANDLER: &str = "may not specify more than 1 handler type";

/// The actions of a lifecycle hook.
const HOOK_ACTIONS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];

/// The actions of a probe.
const PROBE_ACTIONS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];

/// The stop signals of Linux, in the order of error messages.
const STOP_SIGNALS: [&str; 65] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

/// Validates probes and hooks of a container that may have them. `grace` is the termination grace period of the pod.
// upstream: pkg/apis/core/validation/validation.go validateLifecycle, validateProbe
pub(super) fn validate_probes_and_lifecycle(
    container: &Value,
    os: &Value,
    grace: Option<i64>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if container.has("lifecycle") {
        let field_path = at.child("lifecycle");
        let lifecycle = container.at("lifecycle");
        for name in ["postStart", "preStop"] {
            if lifecycle.has(name) {
                validate_handler(
                    lifecycle.at(name),
                    &HOOK_ACTIONS,
                    grace,
                    &field_path.child(name),
                    errors,
                );
            }
        }
        if lifecycle.has("stopSignal") {
            validate_stop_signal(
                lifecycle.text("stopSignal"),
                os,
                &field_path.child("stopSignal"),
                errors,
            );
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if !container.has(name) {
            continue;
        }
        let value = container.at(name);
        let field_path = at.child(name);
        validate_probe(value, grace, &field_path, errors);
        let ends = value.at("terminationGracePeriodSeconds");
        if name == "readinessProbe" {
            if !ends.is_null() {
                let ends_at = field_path.child("terminationGracePeriodSeconds");
                errors.invalid(&ends_at, ends, "must not be set for readinessProbes");
            }
        } else {
            let successes = value.int_or_zero("successThreshold");
            if successes != 1 {
                errors.invalid(&field_path.child("successThreshold"), successes, "must be 1");
            }
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validateProbe, validateLivenessProbe, validateReadinessProbe, validateStartupProbe
fn validate_probe(probe: &Value, grace: Option<i64>, at: &Path<'_>, errors: &mut ErrorList) {
    validate_handler(probe, &PROBE_ACTIONS, grace, at, errors);
    for name in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        errors.not_negative(&at.child(name), probe.int_or_zero(name));
    }
    let name = "terminationGracePeriodSeconds";
    if let Some(seconds) = probe.int(name).filter(|seconds| *seconds <= 0) {
        errors.invalid(&at.child(name), seconds, "must be greater than 0");
    }
}

// upstream: pkg/apis/core/validation/validation.go validateHandler
fn validate_handler(
    handler: &Value,
    kinds: &[&str],
    grace: Option<i64>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mut set_actions = kinds.iter().filter(|kind| handler.has(kind));
    let Some(first) = set_actions.next() else {
        return errors.required(at, "must specify a handler type");
    };
    let action = handler.at(first);
    let field_path = at.child(first);
    match *first {
        "exec" => {
            if action.items("command").is_empty() {
                errors.required(&field_path.child("command"), "");
            }
        }
        "httpGet" => validate_http_get_action(action, &field_path, errors),
        "tcpSocket" => validate_port_num_or_name(action.at("port"), &field_path.child("port"), errors),
        "grpc" => {
            validate_port_num_or_name(action.at("port"), &field_path.child("port"), errors);
            let mode = action.text("mode");
            if action.has("mode") && !matches!(mode, "Plaintext" | "TLS") {
                errors.unsupported(&field_path.child("mode"), mode, &["Plaintext", "TLS"]);
            }
        }
        _ => {
            let seconds = action.int_or_zero("seconds");
            if let Some(max) = grace.filter(|max| !(0..=*max).contains(&seconds)) {
                let detail =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({max})");
                errors.invalid(&field_path, seconds, detail);
            }
        }
    }
    for kind in set_actions {
        errors.forbidden(&at.child(kind), ONE_HANDLER);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateHTTPGetAction
fn validate_http_get_action(action: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if action.text("path").is_empty() {
        errors.required(&at.child("path"), "");
    }
    validate_port_num_or_name(action.at("port"), &at.child("port"), errors);
    let scheme = action.text("scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") {
        errors.unsupported(&at.child("scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    for header in action.items("httpHeaders") {
        let name = header.text("name");
        errors.push_invalid(&at.child("httpHeaders"), name, validate_http_header_name(name));
    }
    if !action.has("protocol") {
        return;
    }
    let protocol = action.text("protocol");
    let field_path = at.child("protocol");
    let host = action.text("host");
    if !matches!(protocol, "HTTP1" | "HTTP2") {
        errors.unsupported(&field_path, protocol, &["HTTP1", "HTTP2"]);
    } else if protocol == "HTTP2" && scheme != "HTTP" {
        errors.invalid(&field_path, protocol, "is only supported with HTTP (H2C)");
    } else if protocol == "HTTP2" && !host.is_empty() {
        errors.invalid(
            &at.child("host"),
            host,
            "must be empty when `protocol` is \"HTTP2\"",
        );
    }
}

/// A port number or name.
// upstream: pkg/apis/core/validation/validation.go ValidatePortNumOrName
pub(super) fn validate_port_num_or_name(port: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(name) = port.as_str() {
        return errors.push_invalid(at, name, validate_port_name(name));
    }
    let number = port.as_i64().unwrap_or_default();
    for msg in validate_port_number(number) {
        errors.invalid(at, number, msg);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateStopSignal
fn validate_stop_signal(signal: &str, os: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let supported: &[&str] = match os.text("name") {
        _ if os.is_null() => {
            return errors.forbidden(at, "may not be set for containers with empty `spec.os.name`");
        }
        "windows" => &["SIGKILL", "SIGTERM"],
        "linux" => &STOP_SIGNALS,
        _ => return,
    };
    if !supported.contains(&signal) {
        errors.unsupported(at, signal, supported);
    }
}
