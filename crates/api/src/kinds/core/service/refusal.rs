//! The answers to services whose addresses or ports are not to be had.

use serde_json::{Value, json};

use super::{addresses::Address, ports::Want};
use crate::{
    field::{Error, Path},
    kinds::go_values,
    status::{GroupResource, Status},
    strategy::Tree,
};

/// Why an address is not to be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressFault {
    /// All are given out.
    #[error("range is full")]
    Full,
    /// Another service has it.
    #[error("provided IP is already allocated")]
    Taken,
    /// It is of no network for services.
    #[error("the provided network does not match the current range")]
    NoSuchNetwork,
    /// It is of the network, but not given to anybody: the first or the last one.
    #[error("the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}")]
    OutOfRange {
        /// The address.
        address: String,
        /// The network.
        range: String,
    },
}

/// Why a port on all nodes is not to be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortFault {
    /// All are given out.
    #[error("range is full")]
    Full,
    /// Another service has it.
    #[error("provided port is already allocated")]
    Taken,
    /// It is none of those that are given out.
    #[error("provided port is not in the valid range. The range of valid ports is {range}")]
    OutOfRange {
        /// The ports, as in `30000-32767`.
        range: String,
    },
}

/// The answer to a service that cannot have an address.
pub fn refused_address(service: &Value, address: &Address, msg: &AddressFault) -> Status {
    let name = service.at("metadata").text("name");
    let detail = match (&address.wanted, msg) {
        (None, AddressFault::Full) => {
            let name = crate::go::quote(name);
            return Status::internal_error(format!(
                "failed to allocate a serviceIP for Service {name}: {msg}"
            ));
        }
        (None, _) => format!("failed to allocate IP: {msg}"),
        (Some(wanted), _) => format!("failed to allocate IP {wanted}: {msg}"),
    };
    // Places for the addresses that are still to come are shown, too.
    let mut list = service.at("spec").items("clusterIPs").to_vec();
    let families = service.at("spec").items("ipFamilies").len();
    list.resize(list.len().max(families), json!(""));
    let root = Path::new("spec");
    let shown = go_values::json_value(&Value::Array(list));
    invalid(service, Error::invalid(&root.child("clusterIPs"), shown, detail))
}

/// The answer to a service one of whose ports cannot have a port on nodes.
pub fn refused_node_port(service: &Value, index: usize, want: Want, msg: &PortFault) -> Status {
    match want {
        Want::Number(number) => {
            let root = Path::new("spec");
            let ports = root.child("ports");
            let field_path = ports.index(index);
            let error = Error::invalid(&field_path.child("nodePort"), number, msg.to_string());
            invalid(service, error)
        }
        Want::Any | Want::SameAs(_) => {
            Status::internal_error(format!("failed to allocate a nodePort: {msg}"))
        }
    }
}

/// The answer to a service that cannot have a port for questions after its health.
pub fn refused_health_port(want: Want, msg: &PortFault) -> Status {
    Status::internal_error(match want {
        Want::Number(number) => {
            format!("failed to allocate requested HealthCheck NodePort {number}: {msg}")
        }
        Want::Any | Want::SameAs(_) => format!("failed to allocate a HealthCheck NodePort 0: {msg}"),
    })
}

fn invalid(service: &Value, error: Error) -> Status {
    let name = service.at("metadata").text("name");
    Status::invalid(GroupResource::new("", "Service"), name, &[error])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::service::Family;

    #[test]
    fn refusals_tell_what_was_asked_for() {
        let service = json!({"metadata": {"name": "s"}, "spec": {"clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4", "IPv6"]}});
        let wanted = Address {
            index: 0,
            family: Family::V4,
            wanted: Some("10.0.0.1".to_owned()),
        };
        assert_eq!(
            refused_address(&service, &wanted, &AddressFault::Taken).message,
            "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.1\",\"\"]: failed to allocate IP \
             10.0.0.1: provided IP is already allocated"
        );
        let any = Address {
            wanted: None,
            ..wanted
        };
        assert_eq!(
            refused_address(&service, &any, &AddressFault::Full).message,
            "Internal error occurred: failed to allocate a serviceIP for Service \"s\": range is full"
        );
        let range = "30000-32767".to_owned();
        assert_eq!(
            refused_node_port(&service, 1, Want::Number(80), &PortFault::OutOfRange { range }).message,
            "Service \"s\" is invalid: spec.ports[1].nodePort: Invalid value: 80: provided port is not in the valid \
             range. The range of valid ports is 30000-32767"
        );
        assert_eq!(
            refused_health_port(Want::Number(31000), &PortFault::Taken).code,
            500
        );
    }
}
