//! Connections to real ports.

use std::time::Duration;

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};

use super::LIMIT;
use crate::probes::{Found, tcp::look};

#[tokio::test]
async fn a_port_that_listens_is_well() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_eq!(look("127.0.0.1", port, LIMIT).await, Found::Well(String::new()));
    drop(listener);
    let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(look("127.0.0.1", port, LIMIT).await, Found::Unwell(refused));
}

#[tokio::test]
async fn a_port_that_does_not_answer_in_time_is_not() {
    // A listener that accepts nothing: once its backlog is full, the kernel lets further clients wait.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        queued.push(stream.unwrap());
    }
    let port = address.port();
    let found = look("127.0.0.1", port, Duration::from_millis(50)).await;
    let Found::Unwell(words) = found else {
        panic!("{found:?}");
    };
    assert!(
        words.starts_with(&format!("dial tcp 127.0.0.1:{port}: ")),
        "{words}"
    );
}
