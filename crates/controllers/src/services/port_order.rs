//! Port order of upstream: by hash of the port's Go dump, so that all writers agree.

use crate::objects::{AddressPort, SlicePort};

/// Brings the ports of a slice in order.
// upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go NewPortMapKey, portsInOrder
pub(crate) fn slice_ports(mut ports: Vec<SlicePort>) -> Vec<SlicePort> {
    ports.sort_by_cached_key(|port| {
        let name = pointer("string", port.name.as_deref());
        let protocol = pointer("v1.Protocol", port.protocol.as_deref());
        let number = port.port.map(|number| number.to_string());
        let number = pointer("int32", number.as_deref());
        let spoken = pointer("string", port.app_protocol.as_deref());
        hash(&format!(
            "(v1.EndpointPort){{Name:{name} Protocol:{protocol} Port:{number} AppProtocol:{spoken}}}"
        ))
    });
    ports
}

/// Brings the ports of addresses in order.
// upstream: pkg/api/v1/endpoints/util.go SortSubsets, portsByHash
pub(crate) fn address_ports(mut ports: Vec<AddressPort>) -> Vec<AddressPort> {
    ports.sort_by_cached_key(|port| {
        let AddressPort { name, port: number, protocol, app_protocol } = port;
        let spoken = pointer("string", app_protocol.as_deref());
        hash(&format!(
            "(v1.EndpointPort){{Name:(string){name} Port:(int32){number} Protocol:(v1.Protocol){protocol} AppProtocol:{spoken}}}"
        ))
    });
    ports
}

fn pointer(kind: &str, value: Option<&str>) -> String {
    format!("(*{kind}){}", value.unwrap_or("<nil>"))
}

/// FNV-1a with 128 bits.
// upstream: pkg/util/hash/hash.go DeepHashObject; the text is Go's dump of the struct
fn hash(text: &str) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes()
        .fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_fnv1a_128() {
        assert_eq!(hash(""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash("a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }

    #[test]
    fn port_order_is_deterministic() {
        let port = |number| SlicePort {
            port: Some(number),
            ..SlicePort::default()
        };
        let one = vec![port(80), port(443), port(8080)];
        let other = vec![port(8080), port(80), port(443)];
        assert_eq!(slice_ports(one), slice_ports(other));
    }
}
