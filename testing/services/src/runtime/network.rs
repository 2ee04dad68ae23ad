//! A separate network per runtime, because two runtimes on one machine must not assign the same addresses.

use std::{fs, process::Command};

use super::image::run;
use crate::{ServiceError, port::random};

/// A bridge, and the addresses behind it.
#[derive(Clone, Debug)]
pub(super) struct Network {
    /// The name of the interface, at most 15 characters. Also the name of the network.
    pub(super) bridge: String,
    /// The first three bytes of its addresses, with dots: `10.203.17`.
    prefix: String,
}

// --- Network ---

impl Network {
    /// A subnet without a route on this machine.
    pub(super) fn choose() -> Self {
        let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
        let mut chosen = Self::from_number(random());
        while chosen.is_routed(&routes) {
            chosen = Self::from_number(random());
        }
        chosen
    }

    /// Lets what is behind the bridge talk to each other, whatever else is forbidden on this machine: where Docker ran once,
    /// nothing is forwarded that is not allowed. Undone with everything else.
    pub(super) fn admit(&self) -> Result<(), ServiceError> {
        let rule = [
            "-I",
            "FORWARD",
            "-i",
            &self.bridge,
            "-o",
            &self.bridge,
            "-j",
            "ACCEPT",
        ];
        run(Command::new("iptables").arg("--wait").args(rule)).map(drop)
    }

    /// The address of the bridge with the length of its prefix.
    pub(super) fn gateway(&self) -> String {
        format!("{}.1/24", self.prefix)
    }

    /// All its addresses.
    pub(super) fn subnet(&self) -> String {
        format!("{}.0/24", self.prefix)
    }

    /// A configuration of CNI for it; what it keeps is under `directory`. It masquerades nothing: tests talk to this machine only.
    pub(super) fn cni(&self, directory: &str) -> String {
        let bridge = &self.bridge;
        let subnet = self.subnet();
        format!(
            r#"{{"cniVersion":"0.4.0","name":"{bridge}","plugins":[
{{"type":"bridge","bridge":"{bridge}","isGateway":true,"hairpinMode":true,"ipam":
{{"type":"host-local","dataDir":"{directory}/ipam","ranges":[[{{"subnet":"{subnet}"}}]],"routes":[{{"dst":"0.0.0.0/0"}}]}}}},
{{"type":"portmap","capabilities":{{"portMappings":true}}}}]}}
"#
        )
    }

    fn from_number(number: u64) -> Self {
        let [a, b, c, d, ..] = number.to_le_bytes();
        Self {
            bridge: format!("k3t{a:02x}{b:02x}{c:02x}{d:02x}"),
            // 10.200 to 10.247: away from what Docker, Podman and clusters take by themselves.
            prefix: format!("10.{}.{b}", 200 + a % 48),
        }
    }

    /// `/proc/net/route` has addresses as hexadecimal numbers of the machine's own order: little endian.
    fn is_routed(&self, routes: &str) -> bool {
        let bytes: Vec<_> = self
            .prefix
            .split('.')
            .rev()
            .filter_map(|part| part.parse::<u8>().ok())
            .collect();
        let address = bytes
            .iter()
            .fold(String::from("00"), |text, byte| text + &format!("{byte:02X}"));
        routes.contains(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_is_routed_is_seen() {
        let network = Network {
            bridge: "k3t".into(),
            prefix: "10.201.7".into(),
        };
        assert!(network.is_routed("k3dtest\t0007C90A\t00000000\t0001\n"));
        assert!(!network.is_routed("eth0\t000200C0\t00000000\t0001\n"));
        assert_eq!(network.subnet(), "10.201.7.0/24");
    }

    #[test]
    fn the_name_of_a_bridge_fits() {
        assert!(Network::choose().bridge.len() <= 15);
    }
}
