//! Connections to ports inside a sandbox.

use std::{io, net::IpAddr, time::Duration};

use tokio::{net::TcpStream, time::timeout};

use crate::runtime::{RuntimeError, network_namespace::connect_in_network_namespace};

/// Connect timeout to the pod IP.
const LIMIT: Duration = Duration::from_secs(10);

/// Connects to a loopback port in the network namespace of a process. Without the permission to enter it (rootless agent), connects to the
/// pod IP instead, which does not reach servers that listen on the loopback address only.
pub(super) async fn connect(pid: i32, port: u16, address: Option<IpAddr>) -> Result<TcpStream, RuntimeError> {
    let pid = u32::try_from(pid)
        .map_err(|_| RuntimeError::NotFound(format!("the sandbox has no process: PID {pid}")))?;
    let connected = match (connect_in_network_namespace(pid, port).await, address) {
        (Err(error), Some(address)) if error.kind() == io::ErrorKind::PermissionDenied => {
            let connected = timeout(LIMIT, TcpStream::connect((address, port))).await;
            connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        }
        (connected, _) => connected,
    };
    connected.map_err(|error| {
        RuntimeError::OperationFailed(format!(
            "failed to connect to localhost:{port} inside the pod: {error}"
        ))
    })
}
