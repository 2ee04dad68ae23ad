//! The order in which ports are told: that of hashes of their texts, so that it is the same for all who write them.

use crate::objects::{AddressPort, SlicePort};

/// Brings the ports of a slice in order.
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
    fn the_hash_is_the_known_one() {
        assert_eq!(hash(""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash("a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }

    #[test]
    fn the_order_does_not_depend_on_the_one_before() {
        let port = |number| SlicePort {
            port: Some(number),
            ..SlicePort::default()
        };
        let (one, other) = (
            vec![port(80), port(443), port(8080)],
            vec![port(8080), port(80), port(443)],
        );
        assert_eq!(slice_ports(one), slice_ports(other));
    }
}
