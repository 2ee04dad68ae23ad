//! EndpointSlice: some of the endpoints of a service.

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    kinds::{core::endpoint_ip::validate_endpoint_ip, field_checks},
    name::{self, AddressStrictness},
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct EndpointSlice;

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_ENDPOINTS: usize = 1000;
const MAX_HINTS: usize = 8;

/// Number of ports and addresses that a table shows.
const MAX_TABLE_ITEMS: usize = 3;

/// Values of the managed-by label whose slices get no address warnings: the addresses are not the client's.
const CONTROLLERS: [&str; 2] = [
    "endpointslice-controller.k8s.io",
    "endpointslicemirroring-controller.k8s.io",
];

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("AddressType", "addressType"),
    Column::field("Ports", "ports"),
    Column::field("Endpoints", "endpoints"),
    Column::age(),
];

// upstream: pkg/registry/discovery/endpointslice/strategy.go endpointSliceStrategy
impl RestStrategy for EndpointSlice {
    fn set_defaults(&self, object: &mut Value) {
        for port in object.items_mut("ports") {
            port.set_default("name", "");
            port.set_default("protocol", "TCP");
        }
    }

    // upstream: pkg/registry/discovery/endpointslice/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, _: &StrategyContext<'_>) {
        drop_topology(object);
    }

    // upstream: pkg/registry/discovery/endpointslice/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        if new.at("endpoints") != old.at("endpoints") {
            drop_topology(new);
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn raises_generation(&self, new: &Value, old: &Value) -> bool {
        ["addressType", "endpoints", "ports"]
            .iter()
            .any(|field| new.at(field) != old.at(field))
            || new.at("metadata").entries("labels") != old.at("metadata").entries("labels")
    }

    // upstream: pkg/apis/discovery/validation/validation.go ValidateEndpointSliceCreate
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_ports(object.items("ports"), errors);
        validate_endpoints(object, errors);
        // Declarative validation runs after the hand-written one, so its errors are last.
        validate_address_type(object, errors);
        validate_address_counts(object.items("endpoints"), errors);
    }

    // upstream: pkg/apis/discovery/validation/validation.go ValidateEndpointSliceUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let changed_type = new.at("addressType") != old.at("addressType");
        let changed_endpoints = new.at("endpoints") != old.at("endpoints");
        let at = Path::new("addressType");
        if changed_type && !new.text("addressType").is_empty() {
            validate_address_type(new, errors);
        }
        validate_ports(new.items("ports"), errors);
        if changed_endpoints {
            validate_endpoints(new, errors);
        }
        if changed_type && new.text("addressType").is_empty() {
            errors.push(Error::required(&at, ""));
        }
        field_checks::validate_immutable_hiding_value(
            new.at("addressType"),
            old.at("addressType"),
            &at,
            errors,
        );
        if changed_endpoints {
            validate_address_counts(new.items("endpoints"), errors);
        }
    }

    // upstream: pkg/registry/discovery/endpointslice/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && new.text("addressType") == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        let labels = new.at("metadata").at("labels");
        if CONTROLLERS.contains(&labels.text("endpointslice.kubernetes.io/managed-by")) {
            return warnings;
        }
        let list = Path::new("endpoints");
        for (index, endpoint) in new.items("endpoints").iter().enumerate() {
            let at = list.index(index);
            let at = at.child("addresses");
            let addresses = endpoint.texts("addresses").enumerate();
            warnings
                .extend(addresses.filter_map(|(index, address)| name::ip_warning(&at.index(index), address)));
        }
        warnings
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printEndpointSlice
    fn row(&self, object: &Value, now: Time) -> Row {
        let ports = object.items("ports").iter().map(|port| match port.int("port") {
            Some(number) => number.to_string(),
            None => port.at("name").as_str().unwrap_or("*").to_owned(),
        });
        let endpoints = object.items("endpoints").iter();
        let addresses = endpoints.flat_map(|endpoint| endpoint.texts("addresses").map(str::to_owned));
        let cells = [
            json!(object.text("addressType")),
            json!(format_first(ports)),
            json!(format_first(addresses)),
        ];
        named_row(object, now, cells)
    }
}

/// Drops the topology labels of v1beta1: v1 has fields for node and zone instead.
// upstream: pkg/registry/discovery/endpointslice/strategy.go dropTopologyOnV1
fn drop_topology(object: &mut Value) {
    for endpoint in object.items_mut("endpoints") {
        endpoint.remove("deprecatedTopology");
    }
}

/// The first items, and the number of the others.
// upstream: pkg/printers/internalversion/printers.go formatDiscoveryPorts, formatDiscoveryEndpoints
fn format_first(mut all: impl Iterator<Item = String>) -> String {
    let first_items: Vec<_> = all.by_ref().take(MAX_TABLE_ITEMS).collect();
    match (first_items.join(","), all.count()) {
        (text, 0) if text.is_empty() => "<unset>".to_owned(),
        (text, 0) => text,
        (text, more) => format!("{text} + {more} more..."),
    }
}

// upstream: pkg/apis/discovery/validation/validation.go validateAddressType
fn validate_address_type(object: &Value, errors: &mut ErrorList) {
    let at = Path::new("addressType");
    match object.text("addressType") {
        "" => errors.push(Error::required(&at, "")),
        kind if ADDRESS_TYPES.contains(&kind) => {}
        kind => errors.push(Error::not_supported(&at, kind, ADDRESS_TYPES)),
    }
}

// upstream: pkg/apis/discovery/validation/validation.go validateEndpoints
fn validate_address_counts(endpoints: &[Value], errors: &mut ErrorList) {
    let list = Path::new("endpoints");
    for (index, endpoint) in endpoints.iter().enumerate() {
        let at = list.index(index);
        let at = at.child("addresses");
        match endpoint.items("addresses").len() {
            0 => errors.push(Error::required(&at, "")),
            count if count > MAX_ADDRESSES => {
                errors.push(Error::too_many(&at, Some(count), MAX_ADDRESSES));
            }
            _ => {}
        }
    }
}

// upstream: pkg/apis/discovery/validation/validation.go validatePorts
fn validate_ports(ports: &[Value], errors: &mut ErrorList) {
    let list = Path::new("ports");
    if ports.len() > MAX_PORTS {
        errors.push(Error::too_many(&list, Some(ports.len()), MAX_PORTS));
        return;
    }
    let duplicates = field_checks::duplicate_flags(ports.iter().map(|other| other.text("name")));
    for (index, port) in ports.iter().enumerate() {
        let at = list.index(index);
        let name = port.text("name");
        let field_path = at.child("name");
        if !name.is_empty() {
            field_checks::push_invalid(name, name::validate_dns1123_label(name), &field_path, errors);
        }
        if duplicates[index] {
            errors.push(Error::duplicate(&field_path, name));
        }
        match port.at("protocol").as_str() {
            None => errors.push(Error::required(&at.child("protocol"), "")),
            Some(protocol) if PROTOCOLS.contains(&protocol) => {}
            Some(protocol) => {
                errors.push(Error::not_supported(&at.child("protocol"), protocol, PROTOCOLS));
            }
        }
        if let Some(protocol) = port.at("appProtocol").as_str() {
            field_checks::push_invalid(
                protocol,
                name::validate_label_key(protocol),
                &at.child("appProtocol"),
                errors,
            );
        }
    }
}

// upstream: pkg/apis/discovery/validation/validation.go validateEndpoints
fn validate_endpoints(object: &Value, errors: &mut ErrorList) {
    let list = Path::new("endpoints");
    let endpoints = object.items("endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        errors.push(Error::too_many(&list, Some(endpoints.len()), MAX_ENDPOINTS));
        return;
    }
    let kind = object.text("addressType");
    for (index, endpoint) in endpoints.iter().enumerate() {
        let at = list.index(index);
        for (index, address) in endpoint.texts("addresses").enumerate() {
            validate_address(kind, address, &at.child("addresses"), index, errors);
        }
        if let Some(node) = endpoint.at("nodeName").as_str() {
            field_checks::push_invalid(
                node,
                name::validate_dns1123_subdomain(node),
                &at.child("nodeName"),
                errors,
            );
        }
        if let Some(host) = endpoint.at("hostname").as_str() {
            field_checks::push_invalid(
                host,
                name::validate_dns1123_label(host),
                &at.child("hostname"),
                errors,
            );
        }
        if endpoint.has("hints") {
            validate_hints(endpoint.at("hints"), &at.child("hints"), errors);
        }
    }
}

// upstream: pkg/apis/discovery/validation/validation.go validateEndpoints
fn validate_address(kind: &str, address: &str, list: &Path<'_>, index: usize, errors: &mut ErrorList) {
    let at = list.index(index);
    let malformed = match kind {
        "IPv4" => name::validate_legacy_ip(&at, address, AddressStrictness::Strict, &[]),
        "IPv6" => name::validate_ip(&at, address),
        "FQDN" => {
            errors.extend(name::validate_fully_qualified_domain(&at, address));
            return;
        }
        _ => return,
    };
    if !malformed.is_empty() {
        errors.extend(malformed);
        return;
    }
    let is_v4 = name::parse_ip_sloppy(address).is_some_and(|ip| ip.is_ipv4());
    if is_v4 != (kind == "IPv4") {
        errors.push(Error::invalid(
            list,
            address,
            format!("must be an {kind} address"),
        ));
    }
    validate_endpoint_ip(errors, &at, address);
}

// upstream: pkg/apis/discovery/validation/validation.go validateHints; an excess of zones returns before the nodes are validated
fn validate_hints(hints: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for field in ["forZones", "forNodes"] {
        let list = at.child(field);
        let items = hints.items(field);
        if items.len() > MAX_HINTS {
            errors.push(Error::too_many(&list, Some(items.len()), MAX_HINTS));
            return;
        }
        for (index, name) in items.iter().map(|item| item.text("name")).enumerate() {
            let at = list.index(index);
            let at = at.child("name");
            if items[..index].iter().any(|other| other.text("name") == name) {
                errors.push(Error::duplicate(&at, name));
            }
            let msgs = match field {
                "forZones" => name::validate_label_value(name),
                _ => name::validate_dns1123_subdomain(name),
            };
            field_checks::push_invalid(name, msgs, &at, errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(call: impl FnOnce(&mut ErrorList)) -> Vec<String> {
        let mut errors = ErrorList::new();
        call(&mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults_protocol_and_name_of_ports() {
        let mut object = json!({"ports": [{"port": 1}]});
        EndpointSlice.set_defaults(&mut object);
        assert_eq!(
            object["ports"][0],
            json!({"port": 1, "name": "", "protocol": "TCP"})
        );
    }

    #[test]
    fn rejects_addresses_of_another_type() {
        let slice =
            |kind: &str, address: &str| json!({"addressType": kind, "endpoints": [{"addresses": [address]}]});
        for (kind, good) in [
            ("IPv4", "1.2.3.4"),
            ("IPv6", "2001:db8::1"),
            ("FQDN", "a.example.com"),
        ] {
            assert_eq!(
                messages(|errors| validate_endpoints(&slice(kind, good), errors)),
                [""; 0]
            );
        }
        assert_eq!(
            messages(|errors| validate_endpoints(&slice("IPv6", "1.2.3.4"), errors)),
            ["endpoints[0].addresses: Invalid value: \"1.2.3.4\": must be an IPv6 address"]
        );
        assert_eq!(
            messages(|errors| validate_endpoints(&slice("IPv4", "01.2.3.4"), errors)),
            ["endpoints[0].addresses[0]: Invalid value: \"01.2.3.4\": must not have leading 0s"]
        );
    }

    #[test]
    fn too_many_zones_hide_errors_of_nodes() {
        let zones: Vec<_> = (0..9).map(|zone| json!({"name": format!("z{zone}")})).collect();
        let hints = json!({"forZones": zones, "forNodes": [{"name": "-"}]});
        assert_eq!(
            messages(|errors| validate_hints(&hints, &Path::new("h"), errors)),
            ["h.forZones: Too many: 9: must have at most 8 items"]
        );
        let hints = json!({"forZones": [{"name": "a"}, {"name": "a"}]});
        assert_eq!(
            messages(|errors| validate_hints(&hints, &Path::new("h"), errors)),
            ["h.forZones[1].name: Duplicate value: \"a\""]
        );
    }

    #[test]
    fn label_changes_raise_the_generation() {
        let old = json!({"metadata": {"annotations": {"a": "b"}}, "addressType": "IPv4"});
        let mut new = old.clone();
        new["metadata"] = json!({});
        assert!(!EndpointSlice.raises_generation(&new, &old));
        new["metadata"] = json!({"labels": {"a": "b"}});
        assert!(EndpointSlice.raises_generation(&new, &old));
    }

    #[test]
    fn row_shows_three_ports_and_addresses() {
        let object = json!({
            "addressType": "IPv4",
            "ports": [{"name": "a"}, {"port": 2}, {}],
            "endpoints": [{"addresses": ["1.1.1.1", "2.2.2.2"]}, {"addresses": ["3.3.3.3", "4.4.4.4"]}],
        });
        let row = EndpointSlice.row(&object, Time::from_unix(0, 0));
        assert_eq!(
            row.cells[1..4],
            [
                json!("IPv4"),
                json!("a,2,*"),
                json!("1.1.1.1,2.2.2.2,3.3.3.3 + 1 more...")
            ]
        );
        assert_eq!(
            EndpointSlice.row(&json!({}), Time::from_unix(0, 0)).cells[2],
            "<unset>"
        );
    }
}
