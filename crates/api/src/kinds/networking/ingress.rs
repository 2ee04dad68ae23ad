//! Ingress: HTTP rules that route external requests to services.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::backend;
use crate::{
    apply::{FieldSet, managed::ResetFields},
    field::{Error, Path},
    go,
    kinds::field_checks,
    name::{self, AddressStrictness},
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, named_row},
    time::Time,
};

pub(super) struct Ingress;

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const NOT_AN_ADDRESS: &str = "must be a DNS name, not an IP address";
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
const BAD_SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const BAD_SUFFIXES: [&str; 2] = ["/..", "/."];

/// Number of hosts that a table names.
const MAX_TABLE_HOSTS: usize = 3;

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

/// Invalid values that are tolerated because the old object already has them.
// upstream: pkg/apis/networking/validation/validation.go IngressValidationOptions
#[derive(Clone, Copy, Default)]
struct IngressValidationOptions {
    secret_names: bool,
    wildcard_rules: bool,
}

// upstream: pkg/registry/networking/ingress/strategy.go ingressStrategy
impl RestStrategy for Ingress {
    fn has_generation(&self) -> bool {
        true
    }

    // upstream: pkg/apis/networking/validation/validation.go ValidateIngressCreate
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_ingress_spec(object.at("spec"), IngressValidationOptions::default(), errors);
        let annotation = object
            .at_path("metadata")
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

    // upstream: pkg/apis/networking/validation/validation.go ValidateIngressUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_ingress_spec(
            new.at("spec"),
            IngressValidationOptions::from_old(old.at("spec")),
            errors,
        );
    }

    // upstream: pkg/apis/networking/validation/validation.go ValidateIngressStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let before = old.at_path("status.loadBalancer").items("ingress").iter();
        let before: HashSet<_> = before.map(|point| point.text("ip")).collect();
        let status = Path::new("status");
        let balancer = status.child("loadBalancer");
        let list = balancer.child("ingress");
        for (index, point) in new
            .at_path("status.loadBalancer")
            .items("ingress")
            .iter()
            .enumerate()
        {
            let at = list.index(index);
            let ip = point.text("ip");
            if !ip.is_empty() && !before.contains(ip) {
                errors.extend(name::validate_legacy_ip(
                    &at.child("ip"),
                    ip,
                    AddressStrictness::Strict,
                    &[],
                ));
            }
            let host = point.text("hostname");
            if !host.is_empty() {
                let at = at.child("hostname");
                field_checks::push_invalid(host, name::validate_dns1123_subdomain(host), &at, errors);
                if name::parse_ip_sloppy(host).is_some() {
                    errors.push(Error::invalid(&at, host, NOT_AN_ADDRESS));
                }
            }
        }
    }

    // upstream: pkg/registry/networking/ingress/strategy.go WarningsOnCreate, WarningsOnUpdate
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
        let ingresses = new
            .at_path("status.loadBalancer")
            .items("ingress")
            .iter()
            .enumerate();
        ingresses
            .filter_map(|(index, point)| name::ip_warning(&list.index(index), point.text("ip")))
            .collect()
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        let field = if subresource.is_empty() { "status" } else { "spec" };
        Some(ResetFields::Fields(FieldSet::of_fields(&[&[field]])))
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printIngress
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
            json!(format_hosts(spec.items("rules"))),
            json!(format_addresses(object)),
            json!(ports),
        ];
        named_row(object, now, cells)
    }
}

// --- Tolerance ---

impl IngressValidationOptions {
    // upstream: pkg/apis/networking/validation/validation.go allowInvalidSecretName, allowInvalidWildcardHostRule
    fn from_old(old: &Value) -> Self {
        let secret = |tls: &Value| !validate_tls_secret_name(tls.text("secretName")).is_empty();
        let wildcard = |rule: &Value| {
            let mut errors = ErrorList::new();
            validate_ingress_rule_value(rule, &Path::NIL, &mut errors);
            rule.text("host").contains('*') && !errors.is_empty()
        };
        IngressValidationOptions {
            secret_names: old.items("tls").iter().any(secret),
            wildcard_rules: old.items("rules").iter().any(wildcard),
        }
    }
}

// upstream: pkg/apis/networking/validation/validation.go ValidateIngressSpec
fn validate_ingress_spec(spec: &Value, options: IngressValidationOptions, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let rules = spec.items("rules");
    if rules.is_empty() && !spec.has("defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(Error::invalid(&at, Value::Null, detail));
    }
    if spec.has("defaultBackend") {
        backend::validate_ingress_backend(spec.at("defaultBackend"), &at.child("defaultBackend"), errors);
    }
    for (index, rule) in rules.iter().enumerate() {
        validate_ingress_rule(rule, &at.child("rules").index(index), options, errors);
    }
    for (index, tls) in spec.items("tls").iter().enumerate() {
        validate_ingress_tls(tls, &at.child("tls").index(index), options, errors);
    }
    if spec.has("ingressClassName") {
        let class = spec.text("ingressClassName");
        field_checks::push_invalid(
            class,
            name::validate_dns1123_subdomain(class),
            &at.child("ingressClassName"),
            errors,
        );
    }
}

// upstream: pkg/apis/networking/validation/validation.go validateIngressRules
fn validate_ingress_rule(
    rule: &Value,
    at: &Path<'_>,
    options: IngressValidationOptions,
    errors: &mut ErrorList,
) {
    let host = rule.text("host");
    if !host.is_empty() {
        let at = at.child("host");
        if name::parse_ip_sloppy(host).is_some() {
            errors.push(Error::invalid(&at, host, NOT_AN_ADDRESS));
        }
        validate_host(host, &at, errors);
    }
    if !(host.contains('*') && options.wildcard_rules) {
        validate_ingress_rule_value(rule, at, errors);
    }
}

// upstream: pkg/apis/networking/validation/validation.go validateIngressRules
fn validate_host(host: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let msgs = if host.contains('*') {
        name::validate_wildcard_dns1123_subdomain(host)
    } else {
        name::validate_dns1123_subdomain(host)
    };
    field_checks::push_invalid(host, msgs, at, errors);
}

// upstream: pkg/apis/networking/validation/validation.go validateIngressRuleValue, validateHTTPIngressRuleValue
fn validate_ingress_rule_value(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
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
        validate_http_ingress_path(path, &list.index(index), errors);
    }
}

// upstream: pkg/apis/networking/validation/validation.go validateHTTPIngressPath
fn validate_http_ingress_path(value: &Value, at: &Path<'_>, errors: &mut ErrorList) {
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
    backend::validate_ingress_backend(value.at("backend"), &at.child("backend"), errors);
}

// upstream: pkg/apis/networking/validation/validation.go validateIngressTLS
fn validate_ingress_tls(
    tls: &Value,
    at: &Path<'_>,
    options: IngressValidationOptions,
    errors: &mut ErrorList,
) {
    for (index, host) in tls.texts("hosts").enumerate() {
        validate_host(host, &at.child("hosts").index(index), errors);
    }
    if !options.secret_names {
        let secret = tls.text("secretName");
        field_checks::push_invalid(
            secret,
            validate_tls_secret_name(secret),
            &at.child("secretName"),
            errors,
        );
    }
}

// upstream: pkg/apis/networking/validation/validation.go validateTLSSecretName
fn validate_tls_secret_name(name: &str) -> name::ErrorMessages {
    if name.is_empty() {
        Vec::new()
    } else {
        name::validate_dns1123_subdomain(name)
    }
}

/// The first hosts, with a mark if there are more.
// upstream: pkg/printers/internalversion/printers.go formatHosts
fn format_hosts(rules: &[Value]) -> String {
    let mut hosts = Vec::new();
    let mut more = false;
    for host in rules.iter().map(|rule| rule.text("host")) {
        more |= hosts.len() == MAX_TABLE_HOSTS;
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    match hosts.join(",") {
        none if none.is_empty() => "*".to_owned(),
        hosts if more => format!("{hosts} + {} more...", rules.len() - MAX_TABLE_HOSTS),
        hosts => hosts,
    }
}

/// The addresses of the load balancer, sorted.
// upstream: pkg/printers/internalversion/printers.go ingressLoadBalancerStatusStringer
fn format_addresses(object: &Value) -> String {
    let ingresses = object.at_path("status.loadBalancer").items("ingress").iter();
    let mut addresses: Vec<_> = ingresses
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
