//! TCP probes: a connection to a port can be opened.

use std::time::Duration;

use tokio::{net::TcpStream, time::timeout};

use crate::probes::{
    ProbeAttempt,
    dial::{dial_error_message, join_host_port},
    port,
    probe_kind::{ProbeContext, ProbeFuture, ProbeKind},
};

pub(super) struct TcpSocketProbe;

impl ProbeKind for TcpSocketProbe {
    fn probe<'a>(&self, context: ProbeContext<'a>) -> Option<ProbeFuture<'a>> {
        let target = context.target;
        let action = target.probe.tcp_socket.as_ref()?;
        Some(Box::pin(async move {
            let port = port::resolve_container_port(&action.port, &target.container)?;
            let host = action.host.as_deref().filter(|host| !host.is_empty());
            Ok(probe(host.unwrap_or(&target.address), port, context.limit).await)
        }))
    }
}

/// Opens a connection and closes it.
// upstream: pkg/probe/tcp/tcp.go DoTCPProbe
pub(in crate::probes) async fn probe(host: &str, port: u16, limit: Duration) -> ProbeAttempt {
    match timeout(limit, TcpStream::connect((host, port))).await {
        Ok(Ok(_connection)) => ProbeAttempt::Success(String::new()),
        Ok(Err(error)) => ProbeAttempt::Failure(dial_error_message(host, port, &error)),
        Err(_elapsed) => {
            ProbeAttempt::Failure(format!("dial tcp {}: i/o timeout", join_host_port(host, port)))
        }
    }
}
