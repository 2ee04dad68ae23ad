//! Connections to ports inside a sandbox.

use std::{io, net::IpAddr, time::Duration};

use tokio::{net::TcpStream, time::timeout};

use crate::runtime::{RuntimeError, namespace::connect_inside};

/// What a connection within one machine may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A connection to a port of the loopback address, made within the network of a process. Who may not enter that network tries the
/// pod's address: what listens on the loopback only is not reached then.
pub(super) async fn connect(pid: i32, port: u16, address: Option<IpAddr>) -> Result<TcpStream, RuntimeError> {
    let pid = u32::try_from(pid).unwrap_or_default();
    let connected = match (connect_inside(pid, port).await, address) {
        (Err(error), Some(address)) if error.kind() == io::ErrorKind::PermissionDenied => {
            let connected = timeout(LIMIT, TcpStream::connect((address, port))).await;
            connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        }
        (connected, _) => connected,
    };
    connected.map_err(|error| {
        RuntimeError::Refused(format!(
            "failed to connect to localhost:{port} inside the pod: {error}"
        ))
    })
}
