//! Host namespaces, host names and DNS of a pod.

use serde_json::Value;

use super::{error_list::ErrorListExt, options::PodValidationOptions, profile::visit_containers};
use crate::{
    field::{Error, Path},
    name::{
        AddressStrictness, validate_dns1123_label, validate_dns1123_subdomain,
        validate_dns1123_subdomain_with_underscore, validate_legacy_ip,
    },
    strategy::{ErrorList, Tree},
};

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_LENGTH: usize = 2048;
const MAX_HOSTNAME_LENGTH: usize = 64;

/// With hostNetwork, container ports must equal host ports.
// upstream: pkg/apis/core/validation/validation.go validatePodHostNetworkDeps
pub(super) fn validate_host_network(
    spec: &Value,
    options: &PodValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if !spec.flag("hostNetwork") {
        return;
    }
    let list_at = at.child("containers");
    for (index, container) in spec.items("containers").iter().enumerate() {
        let item_at = list_at.index(index);
        let ports_at = item_at.child("ports");
        for (number, port) in container.items("ports").iter().enumerate() {
            let host = port.int_or_zero("hostPort");
            let own = port.int_or_zero("containerPort");
            // Templates may omit it; the pod is defaulted.
            if (options.is_pod || host != 0) && host != own {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&ports_at.index(number).child("hostPort"), host, detail);
            }
        }
    }
}

/// With user namespaces (hostUsers false, KEP-127), other host namespaces cannot be shared.
// upstream: pkg/apis/core/validation/validation.go validateHostUsers
pub(super) fn validate_host_users(
    spec: &Value,
    options: &PodValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    const DETAIL: &str = "when `hostUsers` is false";
    if spec.at("hostUsers").as_bool() != Some(false) {
        return;
    }
    if spec.flag("hostNetwork") && !options.allow_user_namespace_host_network {
        errors.forbidden(&at.child("hostNetwork"), DETAIL);
    }
    for (field, reported_field) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.flag(field) {
            errors.forbidden(&at.child(reported_field), DETAIL);
        }
    }
    if !options.allow_user_namespace_devices {
        visit_containers(spec, at, |container, field_path| {
            if !container.items("volumeDevices").is_empty() {
                errors.forbidden(&field_path.child("volumeDevices"), DETAIL);
            }
        });
    }
}

/// Validates hostnameOverride.
// upstream: pkg/apis/core/validation/validation.go validatePodHostName
pub(super) fn validate_hostname_override(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(name) = spec.at("hostnameOverride").as_str() else {
        return;
    };
    let field_path = at.child("hostnameOverride");
    if spec.flag("setHostnameAsFQDN") {
        errors.forbidden(&field_path, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.flag("hostNetwork") {
        errors.forbidden(&field_path, "may not be specified when hostNetwork is true");
    }
    if name.len() > MAX_HOSTNAME_LENGTH {
        errors.push(Error::too_long(&field_path, MAX_HOSTNAME_LENGTH));
    }
    errors.push_invalid(&field_path, name, validate_dns1123_subdomain(name));
}

// upstream: pkg/apis/core/validation/validation.go ValidateHostAliases
pub(super) fn validate_host_aliases(aliases: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    for (index, alias) in aliases.iter().enumerate() {
        let field_path = at.index(index);
        let address_at = field_path.child("ip");
        errors.extend(validate_legacy_ip(
            &address_at,
            alias.text("ip"),
            AddressStrictness::Strict,
            &[],
        ));
        let names_at = field_path.child("hostnames");
        for (number, name) in alias.texts("hostnames").enumerate() {
            errors.push_invalid(&names_at.index(number), name, validate_dns1123_subdomain(name));
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validatePodDNSConfig
pub(super) fn validate_dns_config(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let config = spec.at("dnsConfig");
    let servers_at = at.child("nameservers");
    let servers = config.items("nameservers");
    if spec.text("dnsPolicy") == "None" {
        if config.is_null() {
            return errors.required(at, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(&servers_at, detail);
        }
    }
    if servers.len() > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.invalid(&servers_at, config.at("nameservers"), detail);
    }
    for (index, server) in config.texts("nameservers").enumerate() {
        errors.extend(validate_legacy_ip(
            &servers_at.index(index),
            server,
            AddressStrictness::Strict,
            &[],
        ));
    }
    let searches_at = at.child("searches");
    let count = config.items("searches").len();
    if count > MAX_SEARCHES {
        let detail = format!("must not have more than {MAX_SEARCHES} search paths");
        errors.invalid(&searches_at, config.at("searches"), detail);
    }
    let length: usize = config.texts("searches").map(str::len).sum();
    if length + count.saturating_sub(1) > MAX_SEARCH_LENGTH {
        let detail = format!(
            "must not have more than {MAX_SEARCH_LENGTH} characters (including spaces) in the search list"
        );
        errors.invalid(&searches_at, config.at("searches"), detail);
    }
    for (index, search) in config.texts("searches").enumerate() {
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            let msgs = validate_dns1123_subdomain_with_underscore(search);
            errors.push_invalid(&searches_at.index(index), search, msgs);
        }
    }
    let options_at = at.child("options");
    for (index, option) in config.items("options").iter().enumerate() {
        if option.text("name").is_empty() {
            errors.required(&options_at.index(index), "must not be empty");
        }
    }
}

/// Validates hostname and subdomain.
// upstream: pkg/apis/core/validation/validation.go ValidatePodSpec
pub(super) fn validate_hostname_and_subdomain(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for field in ["hostname", "subdomain"] {
        let name = spec.text(field);
        if !name.is_empty() {
            errors.push_invalid(&at.child(field), name, validate_dns1123_label(name));
        }
    }
}
