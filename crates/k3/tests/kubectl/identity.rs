//! Foreign certificates, anonymous requests, and trust in localhost.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use rcgen::{CertificateParams, DnType, KeyPair};

use crate::{cluster::TestCluster, program::outcome};

/// A free port outside the ephemeral range.
fn free_port() -> u16 {
    k3_test_services::free_port().unwrap()
}

/// The first line of the answer to a request over plain HTTP.
fn get(port: u16, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_foreign_certificate_gets_an_unauthorized_response() {
    let cluster = TestCluster::start();
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "kubernetes-admin");
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:masters");
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let certificate = cluster.file("other.crt", &certificate.pem());
    let key = cluster.file("other.key", &key.serialize_pem());
    let text = cluster.kubeconfig();
    let lines = text.lines().map(|line| match line.trim().split_once(':') {
        Some(("client-certificate-data", _)) => format!("    client-certificate: {}", certificate.display()),
        Some(("client-key-data", _)) => format!("    client-key: {}", key.display()),
        _ => line.to_owned(),
    });
    let other = cluster.file("other.kubeconfig", &lines.collect::<Vec<_>>().join("\n"));
    let mut command = cluster.command();
    let (code, _, message) = outcome(command.env("KUBECONFIG", other).args(["get", "--raw=/healthz"]));
    assert_eq!(code, Some(1));
    assert!(
        message.contains("Unauthorized") || message.contains("must be logged in"),
        "{message}"
    );
}

#[test]
fn plain_http_requires_a_token() {
    let port = free_port();
    let cluster = TestCluster::start_with(&[&format!("--insecure-port={port}")]);
    assert_eq!(get(port, "/healthz", ""), "HTTP/1.1 200 OK");
    assert_eq!(get(port, "/api", ""), "HTTP/1.1 401 Unauthorized");
    let token = cluster.kubectl("create token default");
    let header = format!("Authorization: Bearer {}\r\n", token.trim_end());
    assert_eq!(get(port, "/api", &header), "HTTP/1.1 200 OK");
}

#[test]
fn trusts_localhost_when_enabled() {
    let port = free_port();
    let cluster = TestCluster::start_with(&[&format!("--insecure-port={port}"), "--authn-allow-localhost"]);
    let server = format!("--server=http://127.0.0.1:{port}");
    assert!(
        cluster
            .kubectl(&format!("{server} get namespaces"))
            .contains("kube-system")
    );
    assert!(
        cluster
            .kubectl(&format!("{server} auth whoami"))
            .contains("system:masters")
    );
    assert_eq!(get(port, "/api", ""), "HTTP/1.1 200 OK");
    for header in [
        "X-Forwarded-For: 127.0.0.1",
        "X-Real-IP: 127.0.0.1",
        "Forwarded: for=127.0.0.1",
        "Via: 1.1 proxy",
        "Origin: https://example.com",
        "Authorization: Bearer nonsense",
    ] {
        let line = get(port, "/api", &format!("{header}\r\n"));
        assert_eq!(line, "HTTP/1.1 401 Unauthorized", "{header}");
    }
}

#[test]
fn unrestricted_update_changes_the_status() {
    for (flags, replicas) in [(&[][..], ""), (&["--unrestricted-update"][..], "3")] {
        let cluster = TestCluster::start_with(flags);
        cluster.kubectl("create deployment web --image=nginx");
        let mut deployment = cluster.get("deployment/web");
        deployment["status"] = serde_json::json!({"replicas": 3});
        let file = cluster.file("deployment.json", &deployment.to_string());
        cluster.kubectl(&format!("replace -f {}", file.display()));
        let stored = cluster.kubectl("get deployment/web -o jsonpath={.status.replicas}");
        assert_eq!(stored, replicas, "{flags:?}");
    }
}
