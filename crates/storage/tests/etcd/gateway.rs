//! Another program's way to etcd: its JSON gateway, over a plain socket.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use base64::{Engine, engine::general_purpose::STANDARD};

/// Calls a method such as `kv/put` and returns the answer's JSON. Panics when etcd refuses.
pub(crate) fn call(endpoint: &str, method: &str, json: &str) -> String {
    let (status, body) = try_call(endpoint, method, json);
    assert_eq!(status, "200", "{method} {json}: {body}");
    body
}

fn try_call(endpoint: &str, method: &str, json: &str) -> (String, String) {
    let address = endpoint.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /v3/{method} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{json}",
        json.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().to_owned();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}

/// Writes a key as another program would.
pub(crate) fn put(endpoint: &str, key: &str, value: &str) {
    let json = format!(r#"{{"key":"{}","value":"{}"}}"#, base64(key), base64(value));
    call(endpoint, "kv/put", &json);
}

/// The JSON of a range of one key.
pub(crate) fn get(endpoint: &str, key: &str) -> String {
    call(endpoint, "kv/range", &format!(r#"{{"key":"{}"}}"#, base64(key)))
}

/// Compacts all of etcd.
pub(crate) fn compact(endpoint: &str, revision: u64) {
    call(
        endpoint,
        "kv/compaction",
        &format!(r#"{{"revision":"{revision}"}}"#),
    );
}

/// The JSON gateway takes and returns bytes in base64.
pub(crate) fn base64(text: &str) -> String {
    STANDARD.encode(text)
}
