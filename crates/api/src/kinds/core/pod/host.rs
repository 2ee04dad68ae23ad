//! What a pod shares with its host, and what it is called there and elsewhere.

use serde_json::Value;

use super::{options::Options, profile::visit, report::Report};
use crate::{
    field::{Error, Path},
    name::{Strictness, dns1123_label, dns1123_subdomain, dns1123_subdomain_with_underscore, legacy_ip},
    rules::{Errors, Tree},
};

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const LONGEST_SEARCH: usize = 2048;
const LONGEST_HOSTNAME: usize = 64;

/// On the host's network a port is the host's.
pub(super) fn validate_network(spec: &Value, options: &Options, at: &Path<'_>, errors: &mut Errors) {
    if !spec.flag("hostNetwork") {
        return;
    }
    let list_at = at.child("containers");
    for (index, container) in spec.items("containers").iter().enumerate() {
        let item_at = list_at.index(index);
        let ports_at = item_at.child("ports");
        for (number, port) in container.items("ports").iter().enumerate() {
            let host = port.int("hostPort").unwrap_or_default();
            let own = port.int("containerPort").unwrap_or_default();
            // A template may leave it open; it is filled in with the pod.
            if (options.is_pod || host != 0) && host != own {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&ports_at.index(number).child("hostPort"), host, detail);
            }
        }
    }
}

/// Who has users of his own cannot share other things with the host.
pub(super) fn validate_users(spec: &Value, options: &Options, at: &Path<'_>, errors: &mut Errors) {
    const DETAIL: &str = "when `hostUsers` is false";
    if spec.at("hostUsers").as_bool() != Some(false) {
        return;
    }
    if spec.flag("hostNetwork") && !options.user_network {
        errors.forbidden(&at.child("hostNetwork"), DETAIL);
    }
    for (field, shown) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.flag(field) {
            errors.forbidden(&at.child(shown), DETAIL);
        }
    }
    if !options.user_devices {
        visit(spec, at, |container, field_path| {
            if !container.items("volumeDevices").is_empty() {
                errors.forbidden(&field_path.child("volumeDevices"), DETAIL);
            }
        });
    }
}

/// What is wrong with the name a pod goes by in place of its own.
pub(super) fn validate_name(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
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
    if name.len() > LONGEST_HOSTNAME {
        errors.push(Error::too_long(&field_path, LONGEST_HOSTNAME));
    }
    errors.push_invalid(&field_path, name, dns1123_subdomain(name));
}

/// What is wrong with the names of others a pod knows.
pub(super) fn validate_aliases(aliases: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (index, alias) in aliases.iter().enumerate() {
        let field_path = at.index(index);
        let address_at = field_path.child("ip");
        errors.extend(legacy_ip(&address_at, alias.text("ip"), Strictness::Strict, &[]));
        let names_at = field_path.child("hostnames");
        for (number, name) in alias.texts("hostnames").enumerate() {
            errors.push_invalid(&names_at.index(number), name, dns1123_subdomain(name));
        }
    }
}

/// What is wrong with how a pod looks names up.
pub(super) fn validate_dns(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
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
        errors.extend(legacy_ip(
            &servers_at.index(index),
            server,
            Strictness::Strict,
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
    if length + count.saturating_sub(1) > LONGEST_SEARCH {
        let detail = format!(
            "must not have more than {LONGEST_SEARCH} characters (including spaces) in the search list"
        );
        errors.invalid(&searches_at, config.at("searches"), detail);
    }
    for (index, search) in config.texts("searches").enumerate() {
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            let msgs = dns1123_subdomain_with_underscore(search);
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

/// The name of a pod in its domain, and the domain.
pub(super) fn validate_labels(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    for field in ["hostname", "subdomain"] {
        let name = spec.text(field);
        if !name.is_empty() {
            errors.push_invalid(&at.child(field), name, dns1123_label(name));
        }
    }
}
