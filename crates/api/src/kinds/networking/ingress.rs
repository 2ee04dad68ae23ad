//! Ingresses: rules by which requests from outside reach services.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::backend;
use crate::{
    apply::{FieldSet, managed::Reset},
    field::{Error, Path},
    go,
    kinds::field_checks,
    name::{self, Strictness},
    rules::{Circumstances, Column, Errors, Row, Rules, Tree, named_row},
    time::Time,
};

/// The rules of ingresses.
pub(super) struct Ingress;

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const NOT_AN_ADDRESS: &str = "must be a DNS name, not an IP address";
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
const BAD_SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const BAD_SUFFIXES: [&str; 2] = ["/..", "/."];

/// How many hosts a table names.
const HOSTS_SHOWN: usize = 3;

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text(
        "Class",
        "The name of the IngressClass resource that should be used for additional configuration",
    ),
    Column::text(
        "Hosts",
        "Hosts that incoming requests are matched against before the ingress rule",
    ),
    Column::text(
        "Address",
        "Address is a list containing ingress points for the load-balancer",
    ),
    Column::text("Ports", "Ports of TLS configurations that open"),
    Column::age(),
];

/// What is taken because the old object has it already.
#[derive(Clone, Copy, Default)]
struct Tolerance {
    secret_names: bool,
    wildcard_rules: bool,
}

impl Rules for Ingress {
    fn has_generation(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate_spec(object.at("spec"), Tolerance::default(), errors);
        let annotation = object
            .way("metadata")
            .entries("annotations")
            .get(CLASS_ANNOTATION);
        let class = object.at("spec").at("ingressClassName").as_str();
        if let (Some(annotation), Some(class)) = (annotation.and_then(Value::as_str), class)
            && annotation != class
        {
            let root = Path::new("annotations");
            errors.push(Error::invalid(
                &root.child(CLASS_ANNOTATION),
                annotation,
                "must match `ingressClassName` when both are specified",
            ));
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate_spec(new.at("spec"), Tolerance::of(old.at("spec")), errors);
    }

    fn validate_status(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let before = old.way("status.loadBalancer").items("ingress").iter();
        let before: HashSet<_> = before.map(|point| point.text("ip")).collect();
        let status = Path::new("status");
        let balancer = status.child("loadBalancer");
        let list = balancer.child("ingress");
        for (index, point) in new.way("status.loadBalancer").items("ingress").iter().enumerate() {
            let at = list.index(index);
            let ip = point.text("ip");
            if !ip.is_empty() && !before.contains(ip) {
                errors.extend(name::legacy_ip(&at.child("ip"), ip, Strictness::Strict, &[]));
            }
            let host = point.text("hostname");
            if !host.is_empty() {
                let at = at.child("hostname");
                field_checks::push_invalid(host, name::dns1123_subdomain(host), &at, errors);
                if name::parse_ip_sloppy(host).is_some() {
                    errors.push(Error::invalid(&at, host, NOT_AN_ADDRESS));
                }
            }
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let annotated = new
            .at("metadata")
            .entries("annotations")
            .contains_key(CLASS_ANNOTATION);
        if old.is_none() && annotated && !new.at("spec").has("ingressClassName") {
            let name = go::quote(CLASS_ANNOTATION);
            vec![format!(
                "annotation {name} is deprecated, please use 'spec.ingressClassName' instead"
            )]
        } else {
            Vec::new()
        }
    }

    fn status_warnings(&self, new: &Value, _: &Value) -> Vec<String> {
        let status = Path::new("status");
        let balancer = status.child("loadBalancer");
        let list = balancer.child("ingress");
        let points = new.way("status.loadBalancer").items("ingress").iter().enumerate();
        points
            .filter_map(|(index, point)| name::ip_warning(&list.index(index), point.text("ip")))
            .collect()
    }

    fn reset(&self, subresource: &str) -> Option<Reset> {
        let field = if subresource.is_empty() { "status" } else { "spec" };
        Some(Reset::Fields(FieldSet::of_fields(&[&[field]])))
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let class = spec.at("ingressClassName").as_str().unwrap_or("<none>");
        let ports = if spec.items("tls").is_empty() {
            "80"
        } else {
            "80, 443"
        };
        let cells = [
            json!(class),
            json!(hosts(spec.items("rules"))),
            json!(addresses(object)),
            json!(ports),
        ];
        named_row(object, now, cells)
    }
}

// --- Tolerance ---

impl Tolerance {
    fn of(old: &Value) -> Self {
        let secret = |tls: &Value| !secret_name(tls.text("secretName")).is_empty();
        let wildcard = |rule: &Value| {
            let mut errors = Errors::new();
            rule_value(rule, &Path::NOWHERE, &mut errors);
            rule.text("host").contains('*') && !errors.is_empty()
        };
        Tolerance {
            secret_names: old.items("tls").iter().any(secret),
            wildcard_rules: old.items("rules").iter().any(wildcard),
        }
    }
}

fn validate_spec(spec: &Value, tolerance: Tolerance, errors: &mut Errors) {
    let at = Path::new("spec");
    let rules = spec.items("rules");
    if rules.is_empty() && !spec.has("defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(Error::invalid(&at, Value::Null, detail));
    }
    if spec.has("defaultBackend") {
        backend::validate(spec.at("defaultBackend"), &at.child("defaultBackend"), errors);
    }
    for (index, rule) in rules.iter().enumerate() {
        validate_rule(rule, &at.child("rules").index(index), tolerance, errors);
    }
    for (index, tls) in spec.items("tls").iter().enumerate() {
        validate_tls(tls, &at.child("tls").index(index), tolerance, errors);
    }
    if spec.has("ingressClassName") {
        let class = spec.text("ingressClassName");
        field_checks::push_invalid(
            class,
            name::dns1123_subdomain(class),
            &at.child("ingressClassName"),
            errors,
        );
    }
}

fn validate_rule(rule: &Value, at: &Path<'_>, tolerance: Tolerance, errors: &mut Errors) {
    let host = rule.text("host");
    if !host.is_empty() {
        let at = at.child("host");
        if name::parse_ip_sloppy(host).is_some() {
            errors.push(Error::invalid(&at, host, NOT_AN_ADDRESS));
        }
        validate_host(host, &at, errors);
    }
    if !(host.contains('*') && tolerance.wildcard_rules) {
        rule_value(rule, at, errors);
    }
}

fn validate_host(host: &str, at: &Path<'_>, errors: &mut Errors) {
    let found = if host.contains('*') {
        name::wildcard_dns1123_subdomain(host)
    } else {
        name::dns1123_subdomain(host)
    };
    field_checks::push_invalid(host, found, at, errors);
}

fn rule_value(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    if !rule.has("http") {
        return;
    }
    let at = at.child("http");
    let list = at.child("paths");
    let paths = rule.at("http").items("paths");
    if paths.is_empty() {
        errors.push(Error::required(&list, ""));
    }
    for (index, path) in paths.iter().enumerate() {
        validate_path(path, &list.index(index), errors);
    }
}

fn validate_path(value: &Value, at: &Path<'_>, errors: &mut Errors) {
    let field_path = at.child("path");
    let path = value.text("path");
    let relative = || Error::invalid(&field_path, path, "must be an absolute path");
    match value.at("pathType").as_str() {
        None => {
            errors.push(Error::required(
                &at.child("pathType"),
                "pathType must be specified",
            ));
            return;
        }
        Some("Exact" | "Prefix") => {
            if !path.starts_with('/') {
                errors.push(relative());
            }
            for sequence in BAD_SEQUENCES.iter().filter(|sequence| path.contains(*sequence)) {
                let detail = format!("must not contain '{sequence}'");
                errors.push(Error::invalid(&field_path, path, detail));
            }
            for suffix in BAD_SUFFIXES.iter().filter(|suffix| path.ends_with(*suffix)) {
                let detail = format!("cannot end with '{suffix}'");
                errors.push(Error::invalid(&field_path, path, detail));
            }
        }
        Some("ImplementationSpecific") => {
            if !path.is_empty() && !path.starts_with('/') {
                errors.push(relative());
            }
        }
        Some(other) => errors.push(Error::not_supported(&at.child("pathType"), other, PATH_TYPES)),
    }
    backend::validate(value.at("backend"), &at.child("backend"), errors);
}

fn validate_tls(tls: &Value, at: &Path<'_>, tolerance: Tolerance, errors: &mut Errors) {
    for (index, host) in tls.texts("hosts").enumerate() {
        validate_host(host, &at.child("hosts").index(index), errors);
    }
    if !tolerance.secret_names {
        let secret = tls.text("secretName");
        field_checks::push_invalid(secret, secret_name(secret), &at.child("secretName"), errors);
    }
}

fn secret_name(name: &str) -> name::Faults {
    if name.is_empty() {
        Vec::new()
    } else {
        name::dns1123_subdomain(name)
    }
}

/// The first hosts, and how many rules are beyond them.
fn hosts(rules: &[Value]) -> String {
    let mut shown = Vec::new();
    let mut more = false;
    for host in rules.iter().map(|rule| rule.text("host")) {
        more |= shown.len() == HOSTS_SHOWN;
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    match shown.join(",") {
        none if none.is_empty() => "*".to_owned(),
        hosts if more => format!("{hosts} + {} more...", rules.len() - HOSTS_SHOWN),
        hosts => hosts,
    }
}

/// Where the load balancer listens, sorted.
fn addresses(object: &Value) -> String {
    let points = object.way("status.loadBalancer").items("ingress").iter();
    let mut addresses: Vec<_> = points
        .map(|point| match point.text("ip") {
            "" => point.text("hostname"),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.join(",")
}

#[cfg(test)]
mod tests;
