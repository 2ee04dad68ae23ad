//! The addresses behind a service, in their old form.

use serde_json::{Value, json};

use super::endpoint_ip::endpoint_ip;
use crate::{
    field::{Error, Path},
    kinds::field_checks::{push_invalid, validate_port_number, validate_protocol},
    name::{self, Strictness},
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct Endpoints;

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("Endpoints", "subsets"),
    Column::age(),
];
const ADDRESSES: [&str; 2] = ["addresses", "notReadyAddresses"];
/// How many addresses a table shows.
const MAX_SHOWN: usize = 3;

// upstream: pkg/registry/core/endpoint/strategy.go endpointsStrategy
impl RestStrategy for Endpoints {
    // upstream: pkg/apis/core/v1/defaults.go SetDefaults_Endpoints
    fn set_defaults(&self, object: &mut Value) {
        for subset in object.items_mut("subsets") {
            for port in subset.items_mut("ports") {
                port.set_default("protocol", "TCP");
            }
        }
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateEndpointsCreate
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        subsets(errors, object);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateEndpointsUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        // What was taken once stays valid.
        if new.at("subsets") != old.at("subsets") {
            subsets(errors, new);
        }
    }

    // upstream: pkg/registry/core/endpoint/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, _: Option<&Value>) -> Vec<String> {
        let labels = new.at("metadata").at("labels");
        if labels.text("endpoints.kubernetes.io/managed-by") == "endpoint-controller" {
            return Vec::new();
        }
        let root = Path::new("subsets");
        let mut warnings = Vec::new();
        for (index, subset) in new.items("subsets").iter().enumerate() {
            let subset_place = root.index(index);
            for list in ADDRESSES {
                let list_place = subset_place.child(list);
                for (index, address) in subset.items(list).iter().enumerate() {
                    let field_path = list_place.index(index);
                    warnings.extend(name::ip_warning(&field_path.child("ip"), address.text("ip")));
                }
            }
        }
        warnings
    }

    // upstream: pkg/registry/core/endpoint/strategy.go AllowCreateOnUpdate
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printEndpoints
    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [json!(shown(object))])
    }
}

fn subsets(errors: &mut ErrorList, object: &Value) {
    let root = Path::new("subsets");
    for (index, subset) in object.items("subsets").iter().enumerate() {
        let subset_place = root.index(index);
        if ADDRESSES.iter().all(|list| subset.items(list).is_empty()) {
            let detail = "must specify `addresses` or `notReadyAddresses`";
            errors.push(Error::required(&subset_place, detail));
        }
        for list in ADDRESSES {
            let field_path = subset_place.child(list);
            for (index, item) in subset.items(list).iter().enumerate() {
                address(errors, &field_path.index(index), item);
            }
        }
        let field_path = subset_place.child("ports");
        let ports = subset.items("ports");
        for (index, item) in ports.iter().enumerate() {
            port(errors, &field_path.index(index), item, ports.len() > 1);
        }
    }
}

fn address(errors: &mut ErrorList, at: &Path<'_>, address: &Value) {
    let ip = address.text("ip");
    errors.extend(name::validate_legacy_ip(
        &at.child("ip"),
        ip,
        Strictness::Strict,
        &[],
    ));
    let host = address.text("hostname");
    if !host.is_empty() {
        push_invalid(
            host,
            name::validate_dns1123_label(host),
            &at.child("hostname"),
            errors,
        );
    }
    if let Some(node) = address.at("nodeName").as_str() {
        push_invalid(
            node,
            name::validate_dns1123_subdomain(node),
            &at.child("nodeName"),
            errors,
        );
    }
    endpoint_ip(errors, &at.child("ip"), ip);
}

fn port(errors: &mut ErrorList, at: &Path<'_>, port: &Value, needs_name: bool) {
    let name = port.text("name");
    if !name.is_empty() {
        push_invalid(
            name,
            name::validate_dns1123_label(name),
            &at.child("name"),
            errors,
        );
    } else if needs_name {
        errors.push(Error::required(&at.child("name"), ""));
    }
    validate_port_number(port.int("port").unwrap_or_default(), &at.child("port"), errors);
    validate_protocol(port.text("protocol"), &at.child("protocol"), errors);
    if let Some(word) = port.at("appProtocol").as_str() {
        push_invalid(
            word,
            name::validate_label_key(word),
            &at.child("appProtocol"),
            errors,
        );
    }
}

/// The first addresses, with their ports, and how many more there are.
fn shown(object: &Value) -> String {
    let subsets = object.items("subsets");
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut first = Vec::new();
    let mut count = 0;
    for subset in subsets {
        let ports = subset.items("ports");
        let addresses = subset.items("addresses");
        let numbers = ports.iter().map(|port| port.int("port"));
        let numbers: Vec<_> = if ports.is_empty() {
            vec![None]
        } else {
            numbers.collect()
        };
        for number in numbers {
            count += addresses.len();
            let room = MAX_SHOWN - first.len();
            first.extend(
                addresses
                    .iter()
                    .take(room)
                    .map(|address| match (address.text("ip"), number) {
                        (ip, None) => ip.to_owned(),
                        (ip, Some(number)) if ip.contains(':') => format!("[{ip}]:{number}"),
                        (ip, Some(number)) => format!("{ip}:{number}"),
                    }),
            );
        }
    }
    let list = first.join(",");
    if count > MAX_SHOWN {
        format!("{list} + {} more...", count - MAX_SHOWN)
    } else {
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_three_addresses() {
        assert_eq!(shown(&json!({})), "<none>");
        assert_eq!(
            shown(&json!({"subsets": [{"addresses": [{"ip": "1.1.1.1"}]}]})),
            "1.1.1.1"
        );
        let many = json!({"subsets": [
            {"addresses": [{"ip": "1.1.1.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}, {"port": 90}]},
        ]});
        assert_eq!(shown(&many), "1.1.1.1:80,[fd00::1]:80,1.1.1.1:90 + 1 more...");
    }

    #[test]
    fn an_address_is_judged_twice() {
        let mut errors = ErrorList::new();
        subsets(
            &mut errors,
            &json!({"subsets": [{"addresses": [{"ip": "x"}]}, {}]}),
        );
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "subsets[0].addresses[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or \
                 2001:db8::ffff)",
                "subsets[0].addresses[0].ip: Invalid value: \"x\": must be a valid IP address",
                "subsets[1]: Required value: must specify `addresses` or `notReadyAddresses`",
            ]
        );
    }
}
