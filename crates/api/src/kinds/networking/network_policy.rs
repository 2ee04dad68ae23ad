//! NetworkPolicy: the traffic that is allowed to and from pods.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name::{self, AddressStrictness},
    selector::label::{self, InvalidValues, UnknownOperators},
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct NetworkPolicy;

const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
const POLICY_TYPES: [&str; 2] = ["Ingress", "Egress"];

/// The two directions: the list of rules, and the field of a rule that lists the peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("Pod-Selector", "spec.podSelector"),
    Column::age(),
];

/// Invalid values that are tolerated because the old object already has them.
// upstream: pkg/apis/networking/validation/validation.go NetworkPolicyValidationOptions
struct NetworkPolicyValidationOptions<'o> {
    values: InvalidValues,
    cidrs: HashSet<&'o str>,
}

// upstream: pkg/registry/networking/networkpolicy/strategy.go networkPolicyStrategy
impl RestStrategy for NetworkPolicy {
    // upstream: pkg/apis/networking/v1/defaults.go SetDefaults_NetworkPolicy
    fn set_defaults(&self, object: &mut Value) {
        let spec = object.ensure_object("spec");
        for (direction, _) in DIRECTIONS {
            for rule in spec.items_mut(direction) {
                for port in rule.items_mut("ports") {
                    port.set_default("protocol", "TCP");
                }
            }
        }
        if spec.items("policyTypes").is_empty() {
            let types = if spec.items("egress").is_empty() {
                json!(["Ingress"])
            } else {
                json!(["Ingress", "Egress"])
            };
            spec.set("policyTypes", types);
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    // upstream: pkg/apis/networking/validation/validation.go ValidateNetworkPolicy
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let options = NetworkPolicyValidationOptions {
            values: InvalidValues::Refused,
            cidrs: HashSet::new(),
        };
        validate_network_policy_spec(object.at("spec"), &options, errors);
    }

    // upstream: pkg/apis/networking/validation/validation.go ValidateNetworkPolicyUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_network_policy_spec(
            new.at("spec"),
            &NetworkPolicyValidationOptions::from_old(old.at("spec")),
            errors,
        );
    }

    // upstream: pkg/registry/networking/networkpolicy/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for_each_peer(new.at("spec"), |peer, at| {
            let block = peer.at("ipBlock");
            if block.is_null() {
                return;
            }
            let at = at.child("ipBlock");
            warnings.extend(name::cidr_warnings(&at.child("cidr"), block.text("cidr")));
            for (index, except) in block.texts("except").enumerate() {
                warnings.extend(name::cidr_warnings(&at.child("except").index(index), except));
            }
        });
        warnings
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printNetworkPolicy
    fn row(&self, object: &Value, now: Time) -> Row {
        let selector = object.at("spec").at("podSelector");
        let empty = json!({});
        let selector = if selector.is_null() { &empty } else { selector };
        let text = match label::from_object(Some(selector)) {
            Err(_) => "<error>".to_owned(),
            Ok(selector) => match selector.to_string() {
                all if all.is_empty() => "<none>".to_owned(),
                some => some,
            },
        };
        named_row(object, now, [json!(text)])
    }
}

// --- Tolerance ---

impl<'o> NetworkPolicyValidationOptions<'o> {
    // upstream: pkg/apis/networking/validation/validation.go ValidationOptionsForNetworking
    fn from_old(old: &'o Value) -> Self {
        let selector = label::validate(
            &Path::NIL,
            old.at("podSelector"),
            InvalidValues::Refused,
            UnknownOperators::Refused,
        );
        let rules = DIRECTIONS
            .iter()
            .flat_map(|(direction, peers)| old.items(direction).iter().map(move |rule| rule.items(peers)));
        let blocks = rules.flatten().map(|peer| peer.at("ipBlock"));
        let cidrs = blocks
            .filter(|block| !block.is_null())
            .flat_map(|block| std::iter::once(block.text("cidr")).chain(block.texts("except")));
        NetworkPolicyValidationOptions {
            values: if selector.is_empty() {
                InvalidValues::Refused
            } else {
                InvalidValues::Taken
            },
            cidrs: cidrs.collect(),
        }
    }

    fn validate_selector(&self, selector: &Value, at: &Path<'_>, errors: &mut ErrorList) {
        errors.extend(label::validate(
            at,
            selector,
            self.values,
            UnknownOperators::Refused,
        ));
    }
}

// upstream: pkg/apis/networking/validation/validation.go ValidateNetworkPolicySpec
fn validate_network_policy_spec(
    spec: &Value,
    options: &NetworkPolicyValidationOptions<'_>,
    errors: &mut ErrorList,
) {
    let at = Path::new("spec");
    options.validate_selector(spec.at("podSelector"), &at.child("podSelector"), errors);
    for (direction, peers) in DIRECTIONS {
        for (index, rule) in spec.items(direction).iter().enumerate() {
            let list = at.child(direction);
            let at = list.index(index);
            for (index, port) in rule.items("ports").iter().enumerate() {
                validate_network_policy_port(port, &at.child("ports").index(index), errors);
            }
            for (index, peer) in rule.items(peers).iter().enumerate() {
                validate_network_policy_peer(peer, &at.child(peers).index(index), options, errors);
            }
        }
    }
    let field_path = at.child("policyTypes");
    if spec.items("policyTypes").len() > POLICY_TYPES.len() {
        let policy_types = spec.at("policyTypes");
        errors.push(Error::invalid(
            &field_path,
            policy_types,
            "may not specify more than two policyTypes",
        ));
    } else {
        for (index, kind) in spec.texts("policyTypes").enumerate() {
            if !POLICY_TYPES.contains(&kind) {
                errors.push(Error::not_supported(&field_path.index(index), kind, POLICY_TYPES));
            }
        }
    }
    // Declarative validation runs after the hand-written one, so its errors are last.
    for_each_peer(spec, |peer, at| {
        let block = peer.at("ipBlock");
        if !block.is_null() {
            field_checks::require_fields(block, &["cidr"], &at.child("ipBlock"), errors);
        }
    });
}

/// Calls `call` with each peer of each rule, and its field path.
fn for_each_peer(spec: &Value, mut call: impl FnMut(&Value, &Path<'_>)) {
    let at = Path::new("spec");
    for (direction, peers) in DIRECTIONS {
        for (index, rule) in spec.items(direction).iter().enumerate() {
            for (position, peer) in rule.items(peers).iter().enumerate() {
                call(
                    peer,
                    &at.child(direction).index(index).child(peers).index(position),
                );
            }
        }
    }
}

// upstream: pkg/apis/networking/validation/validation.go ValidateNetworkPolicyPort
fn validate_network_policy_port(port: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(protocol) = port.at("protocol").as_str()
        && !PROTOCOLS.contains(&protocol)
    {
        errors.push(Error::not_supported(&at.child("protocol"), protocol, PROTOCOLS));
    }
    let field_path = at.child("endPort");
    let end = port.int("endPort");
    let misplaced = |end: i64, detail: &str| Error::invalid(&field_path, end, detail);
    match port.at("port") {
        Value::Null => {
            errors.extend(end.map(|end| misplaced(end, "may not be specified when `port` is not specified")));
        }
        Value::String(name) => {
            errors.extend(end.map(|end| misplaced(end, "may not be specified when `port` is non-numeric")));
            field_checks::push_invalid(name, name::validate_port_name(name), &at.child("port"), errors);
        }
        number => {
            let number = number.as_i64().unwrap_or_default();
            validate_port_number(number, &at.child("port"), errors);
            if let Some(end) = end {
                if end < number {
                    errors.push(misplaced(end, "must be greater than or equal to `port`"));
                }
                validate_port_number(end, &field_path, errors);
            }
        }
    }
}

fn validate_port_number(number: i64, at: &Path<'_>, errors: &mut ErrorList) {
    errors.extend(
        name::validate_port_number(number)
            .into_iter()
            .map(|msg| Error::invalid(at, number, msg)),
    );
}

// upstream: pkg/apis/networking/validation/validation.go ValidateNetworkPolicyPeer
fn validate_network_policy_peer(
    peer: &Value,
    at: &Path<'_>,
    options: &NetworkPolicyValidationOptions<'_>,
    errors: &mut ErrorList,
) {
    let mut selectors = false;
    for field in ["podSelector", "namespaceSelector"] {
        if peer.has(field) {
            selectors = true;
            options.validate_selector(peer.at(field), &at.child(field), errors);
        }
    }
    let block = peer.at("ipBlock");
    if !block.is_null() {
        validate_ip_block(block, &at.child("ipBlock"), &options.cidrs, errors);
    }
    match (selectors, block.is_null()) {
        (false, true) => errors.push(Error::required(at, "must specify a peer")),
        (true, false) => errors.push(Error::forbidden(
            at,
            "may not specify both ipBlock and another peer",
        )),
        _ => {}
    }
}

// upstream: pkg/apis/networking/validation/validation.go ValidateIPBlock
fn validate_ip_block(block: &Value, at: &Path<'_>, tolerated: &HashSet<&str>, errors: &mut ErrorList) {
    let cidr = block.text("cidr");
    if cidr.is_empty() {
        return;
    }
    if !tolerated.contains(cidr) {
        errors.extend(name::validate_legacy_cidr(
            &at.child("cidr"),
            cidr,
            AddressStrictness::Strict,
            &[],
        ));
    }
    let Some(outer) = name::parse_cidr_sloppy(cidr) else {
        return;
    };
    for (index, except) in block.texts("except").enumerate() {
        let list = at.child("except");
        let at = list.index(index);
        if !tolerated.contains(except) {
            errors.extend(name::validate_legacy_cidr(
                &at,
                except,
                AddressStrictness::Strict,
                &[],
            ));
        }
        if let Some(inner) = name::parse_cidr_sloppy(except)
            && (!outer.contains(inner.network) || outer.prefix >= inner.prefix)
        {
            errors.push(Error::invalid(&at, except, "must be a strict subset of `cidr`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(spec: &Value, old: Option<&Value>) -> Vec<String> {
        let mut errors = ErrorList::new();
        let options = old.map_or(
            NetworkPolicyValidationOptions {
                values: InvalidValues::Refused,
                cidrs: HashSet::new(),
            },
            NetworkPolicyValidationOptions::from_old,
        );
        validate_network_policy_spec(spec, &options, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults_policy_types_by_rules() {
        let mut object = json!({"spec": {"egress": [{"ports": [{"port": 1}]}]}});
        NetworkPolicy.set_defaults(&mut object);
        assert_eq!(object["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        assert_eq!(object["spec"]["egress"][0]["ports"][0]["protocol"], "TCP");
        let mut object = json!({});
        NetworkPolicy.set_defaults(&mut object);
        assert_eq!(object["spec"]["policyTypes"], json!(["Ingress"]));
    }

    #[test]
    fn rejects_end_port_without_numeric_port() {
        let ports = json!({"ingress": [{"ports": [{"port": 80, "endPort": 79}, {"port": "web", "endPort": 80}, {"endPort": 1}]}]});
        assert_eq!(
            errors(&ports, None),
            [
                "spec.ingress[0].ports[0].endPort: Invalid value: 79: must be greater than or equal to `port`",
                "spec.ingress[0].ports[1].endPort: Invalid value: 80: may not be specified when `port` is non-numeric",
                "spec.ingress[0].ports[2].endPort: Invalid value: 1: may not be specified when `port` is not specified",
            ]
        );
    }

    #[test]
    fn rejects_exceptions_outside_the_block() {
        let block = json!({"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "10.0.0.0/8", "::/0"]}}]}]});
        assert_eq!(
            errors(&block, None),
            [
                "spec.egress[0].to[0].ipBlock.except[1]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
                "spec.egress[0].to[0].ipBlock.except[2]: Invalid value: \"::/0\": must be a strict subset of `cidr`",
            ]
        );
    }

    #[test]
    fn tolerates_malformed_blocks_of_the_old_object() {
        let block = json!({"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.1/8"}}]}]});
        assert_eq!(errors(&block, None).len(), 1);
        assert_eq!(errors(&block, Some(&block)), [""; 0]);
        let warnings = NetworkPolicy.warnings(&json!({"spec": block}), None);
        assert!(
            warnings[0]
                .starts_with("spec.ingress[0].from[0].ipBlock.cidr: CIDR value \"10.0.0.1/8\" is ambiguous")
        );
    }

    #[test]
    fn rejects_ambiguous_peers_and_reports_missing_fields_last() {
        let peers = json!({"ingress": [{"from": [{"ipBlock": {}}, {}, {"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}]});
        assert_eq!(
            errors(&peers, None),
            [
                "spec.ingress[0].from[1]: Required value: must specify a peer",
                "spec.ingress[0].from[2]: Forbidden: may not specify both ipBlock and another peer",
                "spec.ingress[0].from[0].ipBlock.cidr: Required value",
            ]
        );
    }

    #[test]
    fn row_shows_the_selector() {
        let cell = |spec: Value| {
            NetworkPolicy
                .row(&json!({"spec": spec}), Time::from_unix(0, 0))
                .cells[1]
                .clone()
        };
        assert_eq!(cell(json!({"podSelector": {}})), "<none>");
        assert_eq!(
            cell(json!({"podSelector": {"matchLabels": {"b": "c", "a": "b"}}})),
            "a=b,b=c"
        );
    }
}
