//! Container ports by number and by name.

use k8s_openapi::{api::core::v1::Container, apimachinery::pkg::util::intstr::IntOrString};

/// The number of a port that a probe refers to by number or by name.
// upstream: pkg/probe/util.go ResolveContainerPort
pub(super) fn resolve_container_port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let port = ports.find(|port| port.name.as_ref() == Some(name));
            port.ok_or_else(|| format!("port \"{name}\" not found"))?
                .container_port
        }
    };
    let valid = u16::try_from(number).ok().filter(|number| *number > 0);
    valid.ok_or_else(|| format!("invalid port number: {number}"))
}
