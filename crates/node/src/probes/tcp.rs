//! A connection to a port: well if it can be made.

use std::{io, time::Duration};

use tokio::{net::TcpStream, time::timeout};

use super::{Found, port::joined};

/// Makes a connection, and lets it go.
pub(super) async fn look(host: &str, port: u16, limit: Duration) -> Found {
    match timeout(limit, TcpStream::connect((host, port))).await {
        Ok(Ok(_connection)) => Found::Well(String::new()),
        Ok(Err(error)) => Found::Unwell(refusal(host, port, &error)),
        Err(_late) => Found::Unwell(format!("dial tcp {}: i/o timeout", joined(host, port))),
    }
}

/// Why a connection could not be made, as Go says it.
pub(super) fn refusal(host: &str, port: u16, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connect: connection reset by peer".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "connect: connection timed out".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {}: {why}", joined(host, port))
}
