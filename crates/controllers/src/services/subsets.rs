//! Addresses in the form in which endpoints are compared: those with the same ports together, each once, in order.

use std::collections::BTreeMap;

use super::port_order;
use crate::objects::{AddressPort, EndpointAddress, Subset};

/// Identifies an address: two pods may have the same one.
type AddressKey = (Box<str>, Box<str>);
/// Addresses, and whether they are ready.
type ReadinessByAddress = BTreeMap<AddressKey, bool>;

/// Repacks subsets: one for each set of ready and unready addresses with the same ports. An address that is listed twice
/// for a port is ready if both entries are.
// upstream: pkg/api/v1/endpoints/util.go RepackSubsets
pub(crate) fn repack(subsets: Vec<Subset>) -> Vec<Subset> {
    let mut known: BTreeMap<AddressKey, EndpointAddress> = BTreeMap::new();
    let mut by_port: BTreeMap<Option<AddressPort>, ReadinessByAddress> = BTreeMap::new();
    for subset in subsets {
        let ports = if subset.ports.is_empty() {
            vec![None]
        } else {
            subset.ports.into_iter().map(Some).collect()
        };
        let ready = subset.addresses.into_iter().map(|address| (address, true));
        let other = subset
            .not_ready_addresses
            .into_iter()
            .map(|address| (address, false));
        for (address, is_ready) in ready.chain(other) {
            let uid = address.target_ref.as_ref().map(|target| target.uid.clone());
            let key = (address.ip.clone(), uid.unwrap_or_default());
            for port in &ports {
                let addresses = by_port.entry(port.clone()).or_default();
                let entry = addresses.entry(key.clone()).or_insert(is_ready);
                *entry = *entry && is_ready;
            }
            known.entry(key).or_insert(address);
        }
    }
    let mut by_addresses: BTreeMap<ReadinessByAddress, Vec<AddressPort>> = BTreeMap::new();
    for (port, addresses) in by_port {
        by_addresses.entry(addresses).or_default().extend(port);
    }
    let subset = |(addresses, ports): (ReadinessByAddress, Vec<AddressPort>)| {
        let those = |wanted: bool| {
            let those = addresses.iter().filter(move |(_, is_ready)| **is_ready == wanted);
            those.filter_map(|(key, _)| known.get(key).cloned()).collect()
        };
        Subset {
            addresses: those(true),
            not_ready_addresses: those(false),
            ports: port_order::address_ports(ports),
        }
    };
    by_addresses.into_iter().map(subset).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn packed(subsets: Value) -> Value {
        json!(repack(serde_json::from_value(subsets).unwrap()))
    }

    #[test]
    fn packs_addresses_with_the_same_ports() {
        let port = |name: &str, port: u16| json!({"name": name, "port": port, "protocol": "TCP"});
        let ip = |ip: &str| json!({"ip": ip});
        let one = packed(json!([
            {"addresses": [ip("1.1.1.2")], "ports": [port("a", 1)]},
            {"addresses": [ip("1.1.1.1")], "ports": [port("a", 1)]},
            {"addresses": [ip("1.1.1.2")], "ports": [port("b", 2)]},
            {"addresses": [ip("1.1.1.1")], "ports": [port("b", 2)]},
        ]));
        assert_eq!(one.as_array().unwrap().len(), 1);
        assert_eq!(one[0]["addresses"], json!([ip("1.1.1.1"), ip("1.1.1.2")]));
        assert_eq!(one[0]["ports"].as_array().unwrap().len(), 2);
        let two = packed(json!([
            {"addresses": [ip("1.1.1.1"), ip("1.1.1.2")], "ports": [port("a", 1)]},
            {"addresses": [ip("1.1.1.1")], "notReadyAddresses": [ip("1.1.1.2")], "ports": [port("b", 2)]},
        ]));
        assert_eq!(two.as_array().unwrap().len(), 2);
    }

    #[test]
    fn keeps_unready_addresses_unready() {
        let subsets = json!([{"addresses": [{"ip": "1.1.1.1"}]}, {"notReadyAddresses": [{"ip": "1.1.1.1"}]}]);
        assert_eq!(
            packed(subsets),
            json!([{"notReadyAddresses": [{"ip": "1.1.1.1"}]}])
        );
        // Two pods may share the address of their node.
        let pods = json!([{"addresses": [{"ip": "1.1.1.1", "targetRef": {"uid": "b"}}, {"ip": "1.1.1.1", "targetRef": {"uid": "a"}}]}]);
        assert_eq!(packed(pods)[0]["addresses"][0]["targetRef"]["uid"], "a");
    }
}
