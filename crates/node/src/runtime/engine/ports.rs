//! Connections to ports inside a sandbox.

use std::{
    fs::File,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    os::fd::AsFd,
    thread,
    time::Duration,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::sync::oneshot;

use crate::runtime::RuntimeError;

/// What a connection within one machine may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A connection to a port of the loopback address, made within the network of a process.
///
/// # Errors
/// When nobody listens there; or, if we may not enter that network and there is no address either, why not.
pub(in crate::runtime) async fn connect_within(
    pid: i32,
    port: u16,
    address: Option<IpAddr>,
) -> Result<tokio::net::TcpStream, RuntimeError> {
    let (sender, outcome) = oneshot::channel();
    // A thread of its own that ends after it: it never gets out of the other network again.
    thread::Builder::new()
        .name(format!("port {port}"))
        .spawn(move || {
            // Whoever asked may have gone.
            let _ = sender.send(within(pid, port));
        })
        .map_err(|error| failed(port, &error))?;
    let entered = outcome
        .await
        .map_err(|_| failed(port, &io::Error::other("the thread ended")))?;
    let stream = match (entered, address) {
        (Ok(connected), _) => connected.map_err(|error| failed(port, &error))?,
        (Err(_), Some(address)) => {
            let connected =
                tokio::time::timeout(LIMIT, tokio::net::TcpStream::connect((address, port))).await;
            return connected
                .map_err(|_| failed(port, &io::ErrorKind::TimedOut.into()))?
                .map_err(|error| failed(port, &error));
        }
        (Err(error), None) => return Err(failed(port, &error)),
    };
    tokio::net::TcpStream::from_std(stream).map_err(|error| failed(port, &error))
}

/// The outer error: we may not enter. The inner one: nobody answers there.
fn within(pid: i32, port: u16) -> io::Result<io::Result<TcpStream>> {
    let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(loopback(port))
}

fn loopback(port: u16) -> io::Result<TcpStream> {
    let connect = |address: IpAddr| {
        let stream = TcpStream::connect_timeout(&SocketAddr::new(address, port), LIMIT)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    };
    connect(Ipv4Addr::LOCALHOST.into()).or_else(|error: io::Error| {
        // What was wrong with the usual address says more.
        connect(Ipv6Addr::LOCALHOST.into()).map_err(|_| error)
    })
}

fn failed(port: u16, error: &io::Error) -> RuntimeError {
    RuntimeError::Refused(format!(
        "failed to connect to localhost:{port} inside the pod: {error}"
    ))
}
