//! TCP probes of real ports.

use std::time::Duration;

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};

use super::LIMIT;
use crate::probes::{ProbeAttempt, kinds::tcp_socket::probe};

#[tokio::test]
async fn succeeds_if_port_listens() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_eq!(
        probe("127.0.0.1", port, LIMIT).await,
        ProbeAttempt::Success(String::new())
    );
    drop(listener);
    let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(
        probe("127.0.0.1", port, LIMIT).await,
        ProbeAttempt::Failure(refused)
    );
}

#[tokio::test]
async fn fails_if_connection_times_out() {
    // A listener that never accepts: once its backlog is full, connections of further clients stay pending.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        queued.push(stream.unwrap());
    }
    let port = address.port();
    let attempt = probe("127.0.0.1", port, Duration::from_millis(50)).await;
    let ProbeAttempt::Failure(message) = attempt else {
        panic!("{attempt:?}");
    };
    assert!(
        message.starts_with(&format!("dial tcp 127.0.0.1:{port}: ")),
        "{message}"
    );
}
