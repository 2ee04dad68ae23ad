//! TCP probes: a connection to a port can be opened.

use std::{io, time::Duration};

use tokio::{net::TcpStream, time::timeout};

use super::{ProbeAttempt, port::join_host_port};

/// Opens a connection and closes it.
// upstream: pkg/probe/tcp/tcp.go DoTCPProbe
pub(super) async fn probe(host: &str, port: u16, limit: Duration) -> ProbeAttempt {
    match timeout(limit, TcpStream::connect((host, port))).await {
        Ok(Ok(_connection)) => ProbeAttempt::Success(String::new()),
        Ok(Err(error)) => ProbeAttempt::Failure(dial_error_message(host, port, &error)),
        Err(_elapsed) => {
            ProbeAttempt::Failure(format!("dial tcp {}: i/o timeout", join_host_port(host, port)))
        }
    }
}

/// The message of Go's `net.Dial` for an error: users compare the events with those of other clusters.
pub(super) fn dial_error_message(host: &str, port: u16, error: &io::Error) -> String {
    let reason = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connect: connection reset by peer".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "connect: connection timed out".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {}: {reason}", join_host_port(host, port))
}
