//! Endpoints: the addresses of a service. Superseded by EndpointSlice.

use serde_json::{Value, json};

use super::endpoint_ip::validate_endpoint_ip;
use crate::{
    field::{Error, Path},
    kinds::field_checks::{push_invalid, validate_port_number, validate_protocol},
    name::{self, AddressStrictness},
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct Endpoints;

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("Endpoints", "subsets"),
    Column::age(),
];
const ADDRESS_LISTS: [&str; 2] = ["addresses", "notReadyAddresses"];
/// Number of addresses that a table shows.
const MAX_TABLE_ADDRESSES: usize = 3;

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
        validate_subsets(errors, object);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateEndpointsUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        // An unchanged object stays valid.
        if new.at("subsets") != old.at("subsets") {
            validate_subsets(errors, new);
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
            let subset_path = root.index(index);
            for list in ADDRESS_LISTS {
                let list_path = subset_path.child(list);
                for (index, address) in subset.items(list).iter().enumerate() {
                    let field_path = list_path.index(index);
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
        named_row(object, now, [json!(format_endpoints(object))])
    }
}

// upstream: pkg/apis/core/validation/validation.go validateEndpointSubsets
fn validate_subsets(errors: &mut ErrorList, object: &Value) {
    let root = Path::new("subsets");
    for (index, subset) in object.items("subsets").iter().enumerate() {
        let subset_path = root.index(index);
        if ADDRESS_LISTS.iter().all(|list| subset.items(list).is_empty()) {
            let detail = "must specify `addresses` or `notReadyAddresses`";
            errors.push(Error::required(&subset_path, detail));
        }
        for list in ADDRESS_LISTS {
            let field_path = subset_path.child(list);
            for (index, item) in subset.items(list).iter().enumerate() {
                validate_address(errors, &field_path.index(index), item);
            }
        }
        let field_path = subset_path.child("ports");
        let ports = subset.items("ports");
        for (index, item) in ports.iter().enumerate() {
            validate_port(errors, &field_path.index(index), item, ports.len());
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validateEndpointAddress
fn validate_address(errors: &mut ErrorList, at: &Path<'_>, address: &Value) {
    let ip = address.text("ip");
    errors.extend(name::validate_legacy_ip(
        &at.child("ip"),
        ip,
        AddressStrictness::Strict,
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
    validate_endpoint_ip(errors, &at.child("ip"), ip);
}

// upstream: pkg/apis/core/validation/validation.go validateEndpointPort
/// A port among `count` ports: several have names.
fn validate_port(errors: &mut ErrorList, at: &Path<'_>, port: &Value, count: usize) {
    let name = port.text("name");
    if !name.is_empty() {
        push_invalid(
            name,
            name::validate_dns1123_label(name),
            &at.child("name"),
            errors,
        );
    } else if count > 1 {
        errors.push(Error::required(&at.child("name"), ""));
    }
    validate_port_number(port.int_or_zero("port"), &at.child("port"), errors);
    validate_protocol(port.text("protocol"), &at.child("protocol"), errors);
    if let Some(protocol) = port.at("appProtocol").as_str() {
        push_invalid(
            protocol,
            name::validate_label_key(protocol),
            &at.child("appProtocol"),
            errors,
        );
    }
}

/// The first addresses with their ports, and the number of the others.
// upstream: pkg/printers/internalversion/printers.go formatEndpoints
fn format_endpoints(object: &Value) -> String {
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
            let remaining = MAX_TABLE_ADDRESSES - first.len();
            first.extend(addresses.iter().take(remaining).map(|address| {
                match (address.text("ip"), number) {
                    (ip, None) => ip.to_owned(),
                    (ip, Some(number)) if ip.contains(':') => format!("[{ip}]:{number}"),
                    (ip, Some(number)) => format!("{ip}:{number}"),
                }
            }));
        }
    }
    let list = first.join(",");
    if count > MAX_TABLE_ADDRESSES {
        format!("{list} + {} more...", count - MAX_TABLE_ADDRESSES)
    } else {
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_shows_three_addresses() {
        assert_eq!(format_endpoints(&json!({})), "<none>");
        assert_eq!(
            format_endpoints(&json!({"subsets": [{"addresses": [{"ip": "1.1.1.1"}]}]})),
            "1.1.1.1"
        );
        let many = json!({"subsets": [
            {"addresses": [{"ip": "1.1.1.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}, {"port": 90}]},
        ]});
        assert_eq!(
            format_endpoints(&many),
            "1.1.1.1:80,[fd00::1]:80,1.1.1.1:90 + 1 more..."
        );
    }

    #[test]
    fn reports_invalid_addresses_twice() {
        let mut errors = ErrorList::new();
        validate_subsets(
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
