//! Connections to real ports.

use std::time::Duration;

use tokio::net::TcpListener;

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
    // An address of documentation: nobody has it. Where there is no way to it, that is said at once.
    let found = look("192.0.2.1", 9, Duration::from_millis(50)).await;
    let Found::Unwell(words) = found else {
        panic!("{found:?}");
    };
    assert!(words.starts_with("dial tcp 192.0.2.1:9: "), "{words}");
}
