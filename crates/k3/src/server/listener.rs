//! Where a server listens.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use tokio::net::TcpListener;

use crate::failure::Failure;

/// The listener of a server.
pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another program uses the port: stop it, or choose another with --secure-port (0 takes a free one)"
            }
            io::ErrorKind::AddrNotAvailable => {
                "--bind must be an address of this machine; 0.0.0.0 or :: listens on all of them"
            }
            io::ErrorKind::PermissionDenied => "ports below 1024 are root's: choose another with --secure-port",
            _ => "choose another address with --bind or another port with --secure-port",
        };
        Failure::new(format!("cannot listen on {address}"), advice).caused_by(error)
    })
}

/// A second listener, at the address that pods know, where the first one is for this machine alone. Without it pods run all the
/// same, but cannot ask the API.
pub(super) async fn listen_for_pods(advertise: IpAddr, listening: SocketAddr) -> Option<TcpListener> {
    if !listening.ip().is_loopback() || advertise.is_loopback() {
        return None;
    }
    let address = SocketAddr::new(advertise, listening.port());
    match TcpListener::bind(address).await {
        Ok(listener) => {
            tracing::info!("serving https://{address} too, for pods of this node");
            Some(listener)
        }
        Err(error) => {
            tracing::warn!(%error, "cannot listen at {address}: pods of this node do not reach the API");
            None
        }
    }
}

/// A listener that only this machine can reach.
pub(super) async fn listen_plain(port: u16) -> Result<TcpListener, Failure> {
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    TcpListener::bind(address).await.map_err(|error| {
        let advice = "choose another port with --insecure-port, or 0 for none";
        Failure::new(format!("cannot listen on {address}"), advice).caused_by(error)
    })
}
