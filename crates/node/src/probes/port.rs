//! Container ports by number and by name.

use k8s_openapi::{api::core::v1::Container, apimachinery::pkg::util::intstr::IntOrString};

/// Why a port of an action cannot be resolved.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolvePortError {
    /// The container has no port of this name.
    #[error("port \"{0}\" not found")]
    NotFound(String),
    /// The number is not one of a port.
    #[error("invalid port number: {0}")]
    InvalidNumber(i32),
}

/// The number of a port that a probe refers to by number or by name.
// upstream: pkg/probe/util.go ResolveContainerPort
pub(super) fn resolve_container_port(
    port: &IntOrString,
    container: &Container,
) -> Result<u16, ResolvePortError> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let port = ports.find(|port| port.name.as_ref() == Some(name));
            port.ok_or_else(|| ResolvePortError::NotFound(name.clone()))?
                .container_port
        }
    };
    let valid = u16::try_from(number).ok().filter(|number| *number > 0);
    valid.ok_or(ResolvePortError::InvalidNumber(number))
}
