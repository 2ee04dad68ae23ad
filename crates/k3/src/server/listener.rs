//! Listening sockets of a server.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use tokio::net::TcpListener;

use crate::command_error::CommandError;

/// The listener of a server.
pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, CommandError> {
    TcpListener::bind(address).await.map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another program uses the port: stop it, or choose another port with --secure-port (0 picks a free one)"
            }
            io::ErrorKind::AddrNotAvailable => {
                "--bind must be an address of this machine; 0.0.0.0 or :: listens on all of them"
            }
            io::ErrorKind::PermissionDenied => "ports below 1024 require root: choose another port with --secure-port",
            _ => "choose another address with --bind or another port with --secure-port",
        };
        CommandError::new(format!("cannot listen on {address}"), advice).caused_by(error)
    })
}

/// A second listener on the advertised address, because pods cannot reach a loopback address. Pods also run without it, but
/// cannot use the API.
pub(super) async fn listen_for_pods(advertise: IpAddr, listening: SocketAddr) -> Option<TcpListener> {
    if !listening.ip().is_loopback() || advertise.is_loopback() {
        return None;
    }
    let address = SocketAddr::new(advertise, listening.port());
    match TcpListener::bind(address).await {
        Ok(listener) => {
            tracing::info!(
                address = format!("https://{address}"),
                "serving the API for pods of this node"
            );
            Some(listener)
        }
        Err(error) => {
            tracing::warn!(%error, %address, "cannot listen on the advertised address: pods on this node cannot reach the API server");
            None
        }
    }
}

/// A loopback listener without TLS.
pub(super) async fn listen_plain(port: u16) -> Result<TcpListener, CommandError> {
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    TcpListener::bind(address).await.map_err(|error| {
        let advice = "choose another port with --insecure-port, or 0 for none";
        CommandError::new(format!("cannot listen on {address}"), advice).caused_by(error)
    })
}
