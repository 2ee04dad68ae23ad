//! Bodies that are too long, too deep, or become too much.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::raw_connection::{RawResponse, TestCluster};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MEBIBYTE: usize = 1024 * 1024;

fn config_map(name: &str, data: &Value) -> Vec<u8> {
    json!({"metadata": {"name": name}, "data": data})
        .to_string()
        .into_bytes()
}

/// An object with so many bytes, most of them nothing.
fn padded(name: &str, length: usize) -> Vec<u8> {
    let mut body = config_map(name, &json!({"a": "b"}));
    body.resize(length, b' ');
    body
}

fn assert_refused(response: &RawResponse, code: u16, text: &str) {
    assert_eq!(response.code, code, "{}", response.text());
    assert!(response.text().contains(text), "{text}: {}", response.text());
}

#[test]
fn bodies_above_three_mebibytes_get_413() {
    let cluster = TestCluster::start(&[]);
    assert_eq!(
        cluster
            .request("POST", CONFIG_MAPS, &padded("fits", 3 * MEBIBYTE))
            .code,
        201
    );
    let refused = cluster.request("POST", CONFIG_MAPS, &padded("long", 3 * MEBIBYTE + 1));
    assert_refused(&refused, 413, "Request entity too large: limit is 3145728");
    // One that does not say how long it is, is read no further either.
    let mut connection = cluster.admin();
    connection.send(
        format!("POST {CONFIG_MAPS} HTTP/1.1\r\nHost: k3\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes(),
    );
    let piece = vec![b' '; MEBIBYTE];
    for _ in 0..4 {
        connection.try_send(format!("{:x}\r\n", piece.len()).as_bytes());
        connection.try_send(&piece);
        connection.try_send(b"\r\n");
    }
    assert_eq!(connection.response().code, 413);
    cluster.assert_healthy();
}

#[test]
fn compressed_request_bodies_get_415() {
    let cluster = TestCluster::start(&[]);
    let headers = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n";
    let refused = cluster
        .admin()
        .request("POST", CONFIG_MAPS, headers, b"\x1f\x8b\x08\x00\x00\x00\x00\x00");
    assert_refused(&refused, 415, "compressed");
    let headers = "Content-Type: application/json\r\nContent-Encoding: identity\r\n";
    let body = config_map("plain", &json!({}));
    assert_eq!(
        cluster.admin().request("POST", CONFIG_MAPS, headers, &body).code,
        201
    );
}

#[test]
fn compresses_long_responses_on_request() {
    let cluster = TestCluster::start(&[]);
    let long = "a".repeat(200 * 1024);
    assert_eq!(
        cluster
            .request("POST", CONFIG_MAPS, &config_map("long", &json!({"a": long})))
            .code,
        201
    );
    let path = format!("{CONFIG_MAPS}/long");
    let compressed = cluster
        .admin()
        .request("GET", &path, "Accept-Encoding: gzip\r\n", b"");
    assert!(
        compressed.head.contains("content-encoding: gzip"),
        "{}",
        compressed.head
    );
    assert!(compressed.body.len() < 50 * 1024);
    let plain = cluster.get(&path);
    assert!(!plain.head.contains("content-encoding"), "{}", plain.head);
}

#[test]
fn limits_operations_and_copies_of_json_patches() {
    let cluster = TestCluster::start(&[]);
    assert_eq!(
        cluster
            .request("POST", CONFIG_MAPS, &config_map("a", &json!({"k": "v"})))
            .code,
        201
    );
    let patch = |operations: Vec<Value>| {
        let body = Value::from(operations).to_string();
        let path = format!("{CONFIG_MAPS}/a");
        let headers = "Content-Type: application/json-patch+json\r\n";
        cluster.admin().request("PATCH", &path, headers, body.as_bytes())
    };
    let test = json!({"op": "test", "path": "/data/k", "value": "v"});
    assert_eq!(patch(vec![test.clone(); 10_000]).code, 200);
    assert_eq!(patch(vec![test; 10_001]).code, 413);
    // Each copy doubles what is there: forty of them would be a terabyte.
    let double = |at: usize| json!({"op": "copy", "from": "/data", "path": format!("/data/{at}")});
    let refused = patch((0..40).map(double).collect());
    assert!((400..500).contains(&refused.code), "{}", refused.code);
    cluster.assert_healthy();
}

#[test]
fn rejects_deeply_nested_json_and_yaml() {
    let cluster = TestCluster::start(&[]);
    for depth in [11_000, 1_000_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let json = format!("{{\"metadata\":{{\"name\":\"deep\"}},\"data\":{deep}}}");
        let refused = cluster.request("POST", CONFIG_MAPS, json.as_bytes());
        assert_eq!(refused.code, 400, "{}", refused.text());
        let headers = "Content-Type: application/yaml\r\n";
        let refused = cluster
            .admin()
            .request("POST", CONFIG_MAPS, headers, json.as_bytes());
        assert_eq!(refused.code, 400, "{}", refused.text());
        let path = format!("{CONFIG_MAPS}/deep?fieldManager=a");
        let headers = "Content-Type: application/apply-patch+yaml\r\n";
        let refused = cluster.admin().request("PATCH", &path, headers, json.as_bytes());
        assert!((400..500).contains(&refused.code), "{}", refused.text());
    }
    cluster.assert_healthy();
}

#[test]
fn rejects_yaml_alias_bombs() {
    let cluster = TestCluster::start(&[]);
    let mut yaml = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        let list = vec![alias; 10].join(",");
        writeln!(yaml, "a{level}: &a{level} [{list}]").unwrap();
    }
    yaml += "metadata: {name: bomb}\n";
    let refused = cluster.admin().request(
        "POST",
        CONFIG_MAPS,
        "Content-Type: application/yaml\r\n",
        yaml.as_bytes(),
    );
    assert_eq!(refused.code, 400, "{}", refused.text());
    cluster.assert_healthy();
}

#[test]
fn malformed_values_get_client_errors() {
    let cluster = TestCluster::start(&[]);
    let huge = format!(
        "{{\"metadata\":{{\"name\":\"a\",\"generation\":{}}}}}",
        "9".repeat(100_000)
    );
    for (what, body, code) in [
        (
            "bytes that are no text",
            &b"{\"metadata\":{\"name\":\"\xff\xfe\"}}"[..],
            422,
        ),
        ("a huge number", huge.as_bytes(), 400),
        (
            "a huge exponent",
            br#"{"metadata":{"name":"b","generation":1e999999999}}"#,
            400,
        ),
    ] {
        let response = cluster.request("POST", CONFIG_MAPS, body);
        assert_eq!(response.code, code, "{what}: {}", response.text());
    }
    let twice = br#"{"metadata":{"name":"a","name":"b"}}"#;
    let refused = cluster.request("POST", &format!("{CONFIG_MAPS}?fieldValidation=Strict"), twice);
    assert_refused(&refused, 400, "duplicate field");
    cluster.assert_healthy();
}

#[test]
fn limits_the_size_of_objects() {
    let cluster = TestCluster::start(&[]);
    let annotated =
        json!({"metadata": {"name": "a", "annotations": {"a": "x".repeat(256 * 1024)}}}).to_string();
    let refused = cluster.request("POST", CONFIG_MAPS, annotated.as_bytes());
    assert_refused(
        &refused,
        422,
        "metadata.annotations: Too long: may not be more than 262144 bytes",
    );
    let large = "x".repeat(MEBIBYTE + 1);
    let refused = cluster.request("POST", CONFIG_MAPS, &config_map("a", &json!({"a": large})));
    assert_refused(&refused, 422, "may not be more than 1048576 bytes");
    let secret = json!({"metadata": {"name": "a"}, "stringData": {"a": large}}).to_string();
    let refused = cluster.request("POST", "/api/v1/namespaces/default/secrets", secret.as_bytes());
    assert_refused(&refused, 422, "may not be more than 1048576 bytes");
    let containers = json!([{"name": "a", "image": "a", "args": ["x".repeat(MEBIBYTE * 8 / 5)]}]);
    let template =
        json!({"metadata": {"name": "a"}, "template": {"spec": {"containers": containers}}}).to_string();
    let refused = cluster.request(
        "POST",
        "/api/v1/namespaces/default/podtemplates",
        template.as_bytes(),
    );
    assert_refused(&refused, 413, "etcdserver: request is too large");
}
