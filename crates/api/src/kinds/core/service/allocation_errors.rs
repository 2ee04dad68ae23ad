//! Statuses of failed allocations of cluster IPs and node ports.

use serde_json::{Value, json};

use super::{addresses::ClusterIpRequest, ports::NodePortRequest};
use crate::{
    field::{Error, Path},
    kinds::go_values,
    status::{GroupResource, Status},
    strategy::Tree,
};

/// Why a cluster IP cannot be allocated; the messages are upstream's.
// upstream: pkg/registry/core/service/ipallocator/ipallocator.go Allocator
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IpAllocationError {
    /// All are in use.
    #[error("range is full")]
    Full,
    /// Another service uses it.
    #[error("provided IP is already allocated")]
    Taken,
    /// It is in no service CIDR.
    #[error("the provided network does not match the current range")]
    NoSuchNetwork,
    /// It is the network or broadcast address.
    #[error("the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}")]
    OutOfRange {
        /// The address.
        address: String,
        /// The service CIDR.
        range: String,
    },
}

/// Why a node port cannot be allocated; the messages are upstream's.
// upstream: pkg/registry/core/service/portallocator/allocator.go ErrNotInRange
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodePortAllocationError {
    /// All are in use.
    #[error("range is full")]
    Full,
    /// Another service uses it.
    #[error("provided port is already allocated")]
    Taken,
    /// It is outside of the range.
    #[error("provided port is not in the valid range. The range of valid ports is {range}")]
    OutOfRange {
        /// The range, as in `30000-32767`.
        range: String,
    },
}

/// The status of a service whose cluster IP cannot be allocated.
// upstream: pkg/registry/core/service/storage/alloc.go allocIPs
pub fn ip_allocation_status(service: &Value, address: &ClusterIpRequest, msg: &IpAllocationError) -> Status {
    let name = service.at("metadata").text("name");
    let detail = match (&address.requested, msg) {
        (None, IpAllocationError::Full) => {
            let name = crate::go::quote(name);
            return Status::internal_error(format!(
                "failed to allocate a serviceIP for Service {name}: {msg}"
            ));
        }
        (None, _) => format!("failed to allocate IP: {msg}"),
        (Some(requested), _) => format!("failed to allocate IP {requested}: {msg}"),
    };
    // Addresses that are not allocated yet show as empty.
    let mut list = service.at("spec").items("clusterIPs").to_vec();
    let families = service.at("spec").items("ipFamilies").len();
    list.resize(list.len().max(families), json!(""));
    let root = Path::new("spec");
    let list_value = go_values::json_value(&Value::Array(list));
    invalid(
        service,
        Error::invalid(&root.child("clusterIPs"), list_value, detail),
    )
}

/// The status of a service whose node port cannot be allocated.
// upstream: pkg/registry/core/service/storage/alloc.go initNodePorts
pub fn node_port_allocation_status(
    service: &Value,
    index: usize,
    want: NodePortRequest,
    msg: &NodePortAllocationError,
) -> Status {
    match want {
        NodePortRequest::Number(number) => {
            let root = Path::new("spec");
            let ports = root.child("ports");
            let field_path = ports.index(index);
            let error = Error::invalid(&field_path.child("nodePort"), number, msg.to_string());
            invalid(service, error)
        }
        NodePortRequest::Any | NodePortRequest::SameAs(_) => {
            Status::internal_error(format!("failed to allocate a nodePort: {msg}"))
        }
    }
}

/// The status of a service whose health check node port cannot be allocated.
// upstream: pkg/registry/core/service/storage/alloc.go allocHealthCheckNodePort
pub fn health_check_node_port_status(want: NodePortRequest, msg: &NodePortAllocationError) -> Status {
    Status::internal_error(match want {
        NodePortRequest::Number(number) => {
            format!("failed to allocate requested HealthCheck NodePort {number}: {msg}")
        }
        NodePortRequest::Any | NodePortRequest::SameAs(_) => {
            format!("failed to allocate a HealthCheck NodePort 0: {msg}")
        }
    })
}

fn invalid(service: &Value, error: Error) -> Status {
    let name = service.at("metadata").text("name");
    Status::invalid(GroupResource::new("", "Service"), name, &[error])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::service::IpFamily;

    #[test]
    fn statuses_name_the_requested_value() {
        let service = json!({"metadata": {"name": "s"}, "spec": {"clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4", "IPv6"]}});
        let requested = ClusterIpRequest {
            index: 0,
            family: IpFamily::V4,
            requested: Some("10.0.0.1".to_owned()),
        };
        assert_eq!(
            ip_allocation_status(&service, &requested, &IpAllocationError::Taken).message,
            "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.1\",\"\"]: failed to allocate IP \
             10.0.0.1: provided IP is already allocated"
        );
        let any = ClusterIpRequest {
            requested: None,
            ..requested
        };
        assert_eq!(
            ip_allocation_status(&service, &any, &IpAllocationError::Full).message,
            "Internal error occurred: failed to allocate a serviceIP for Service \"s\": range is full"
        );
        let range = "30000-32767".to_owned();
        assert_eq!(
            node_port_allocation_status(
                &service,
                1,
                NodePortRequest::Number(80),
                &NodePortAllocationError::OutOfRange { range }
            )
            .message,
            "Service \"s\" is invalid: spec.ports[1].nodePort: Invalid value: 80: provided port is not in the valid \
             range. The range of valid ports is 30000-32767"
        );
        assert_eq!(
            health_check_node_port_status(NodePortRequest::Number(31000), &NodePortAllocationError::Taken)
                .code,
            500
        );
    }
}
