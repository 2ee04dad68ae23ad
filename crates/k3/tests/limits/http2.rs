//! HTTP/2, frame by frame.

use crate::raw_connection::{RawConnection, Requester, TestCluster};

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The beginning of a connection.
fn preface() -> Vec<u8> {
    [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &frame(SETTINGS, 0, 0, b""),
    ]
    .concat()
}

/// A GET of a path, complete: method, scheme, authority and path as they are written without a table.
fn get(stream: u32, path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap();
    let block = [
        &[0x82, 0x87, 0x01, 2],
        &b"k3"[..],
        &[0x04, length],
        path.as_bytes(),
    ]
    .concat();
    frame(HEADERS, 0x5, stream, &block)
}

/// The kinds of the frames in these bytes.
fn kinds(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = bytes {
        kinds.push(*kind);
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        bytes = rest.get(length..).unwrap_or_default();
    }
    kinds
}

fn connect(cluster: &TestCluster, requester: Requester) -> RawConnection {
    let mut connection = cluster.connect(requester, "h2");
    connection.send(&preface());
    connection
}

#[test]
fn rapid_stream_resets_close_only_their_connection() {
    let cluster = TestCluster::start(&[]);
    for _ in 0..5 {
        let mut connection = connect(&cluster, Requester::Admin);
        let mut flood = Vec::new();
        for stream in (1..20_001).step_by(2) {
            flood.extend(get(stream, "/api/v1/pods"));
            flood.extend(frame(RESET, 0, stream, &8_u32.to_be_bytes()));
        }
        // The other end hangs up before all of it is sent.
        if connection.try_send(&flood) {
            assert!(kinds(&connection.rest()).contains(&GOAWAY));
        }
    }
    cluster.assert_healthy();
}

#[test]
fn unauthenticated_connections_serve_one_request() {
    let cluster = TestCluster::start(&[]);
    let mut connection = connect(&cluster, Requester::Anonymous);
    connection.send(&get(1, "/version"));
    let kinds = kinds(&connection.rest());
    assert!(kinds.contains(&HEADERS) && kinds.contains(&GOAWAY), "{kinds:?}");
}

#[test]
fn limits_concurrent_streams_per_connection() {
    let cluster = TestCluster::start(&[]);
    let mut connection = connect(&cluster, Requester::Admin);
    // Watches stay: the ones beyond the hundredth are refused, each by itself or all with the connection.
    for stream in (1..402).step_by(2) {
        if !connection.try_send(&get(stream, "/api/v1/pods?watch=1&timeoutSeconds=1")) {
            break;
        }
    }
    connection.try_send(&frame(GOAWAY, 0, 0, &[0; 8]));
    let kinds = kinds(&connection.rest());
    let refused = kinds.split(|kind| *kind == RESET).count() - 1;
    assert!(refused >= 90 || kinds.contains(&GOAWAY), "{kinds:?}");
    cluster.assert_healthy();
}
