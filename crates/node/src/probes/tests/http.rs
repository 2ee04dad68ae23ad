//! HTTP probes of real servers.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;

use super::LIMIT;
use crate::probes::{
    ProbeAttempt,
    http::{HttpGetError, RequestPurpose, get},
};

/// An HTTP server that runs until it is dropped.
struct HttpServer {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

/// Responds according to the path: `/code/CODE`, `/to/?LOCATION`, `/redirects/COUNT`, `/headers`, `/long`, `/slow`.
async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let response = Response::builder();
    let (_, rest) = path[1..].split_once('/').unwrap_or(("", ""));
    let response = match path[1..].split('/').next().unwrap_or_default() {
        "code" => response
            .status(rest.parse::<u16>().unwrap())
            .body(Full::from("body")),
        "to" => {
            let location = request.uri().query().unwrap_or_default();
            response
                .status(StatusCode::FOUND)
                .header("location", location)
                .body(Full::from("moved"))
        }
        "redirects" => match rest.parse::<u32>().unwrap() {
            0 => response.body(Full::from("arrived")),
            count => response
                .status(StatusCode::FOUND)
                .header("location", format!("/redirects/{}", count - 1))
                .body(Full::from("moved")),
        },
        "headers" => {
            let mut lines: Vec<_> = request
                .headers()
                .iter()
                .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
                .collect();
            lines.sort();
            response.body(Full::from(lines.join("\n")))
        }
        "long" => response.body(Full::from("x".repeat(100_000))),
        "slow" => std::future::pending().await,
        _ => response.body(Full::from("hello")),
    };
    Ok(response.unwrap())
}

async fn serve(tls: Option<TlsAcceptor>) -> HttpServer {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let tls = tls.clone();
            connections.spawn(async move {
                let server = http1::Builder::new();
                let _ = match tls {
                    None => {
                        server
                            .serve_connection(TokioIo::new(stream), service_fn(respond))
                            .await
                    }
                    Some(tls) => {
                        let Ok(stream) = tls.accept(stream).await else {
                            return;
                        };
                        server
                            .serve_connection(TokioIo::new(stream), service_fn(respond))
                            .await
                    }
                };
            });
        }
    });
    HttpServer {
        address,
        _tasks: tasks,
    }
}

/// TLS with a self-signed certificate for another host name.
fn self_signed() -> TlsAcceptor {
    let certified = rcgen::generate_simple_self_signed(vec!["elsewhere.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    let config = config
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn action(server: &HttpServer, path: &str, mut more: Value) -> HTTPGetAction {
    more["path"] = json!(path);
    if more.get("port").is_none() {
        more["port"] = json!(server.address.port());
    }
    serde_json::from_value(more).unwrap()
}

async fn probe(server: &HttpServer, path: &str, more: Value) -> Result<ProbeAttempt, HttpGetError> {
    let container = json!({"name": "a", "ports": [{"name": "web", "containerPort": server.address.port()}]});
    let container: Container = serde_json::from_value(container).unwrap();
    let action = action(server, path, more);
    get(&action, &container, "127.0.0.1", RequestPurpose::Probe, LIMIT).await
}

#[tokio::test]
async fn status_decides_outcome() {
    let server = serve(None).await;
    let port = server.address.port();
    let failure = |code: u16| ProbeAttempt::Failure(format!("HTTP probe failed with statuscode: {code}"));
    let cases = [
        ("/code/200", ProbeAttempt::Success("body".to_owned())),
        ("/code/204", ProbeAttempt::Success(String::new())),
        (
            "/code/304",
            ProbeAttempt::Warning("Probe terminated redirects, Response body: ".to_owned()),
        ),
        ("/code/400", failure(400)),
        ("/code/503", failure(503)),
    ];
    for (path, expected) in cases {
        assert_eq!(probe(&server, path, json!({})).await.unwrap(), expected, "{path}");
    }
    let named = probe(&server, "/", json!({"port": "web"})).await;
    assert_eq!(named.unwrap(), ProbeAttempt::Success("hello".to_owned()));
    let unknown_port = probe(&server, "/", json!({"port": "none"})).await;
    assert_eq!(unknown_port.unwrap_err().to_string(), "port \"none\" not found");
    let Ok(ProbeAttempt::Success(long)) = probe(&server, "/long", json!({})).await else {
        panic!("a truncated body must not fail the probe");
    };
    assert_eq!(long.len(), 10 * 1024);
    drop(server);
    let free = TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    assert_ne!(free.port(), port);
}

#[tokio::test]
async fn sends_headers_of_action_and_defaults() {
    let server = serve(None).await;
    let port = server.address.port();
    let lines = |found: Result<ProbeAttempt, HttpGetError>| match found.unwrap() {
        ProbeAttempt::Success(text) => text,
        other => panic!("{other:?}"),
    };
    let defaults = lines(probe(&server, "/headers", json!({})).await);
    let expected = format!("accept=*/*\nconnection=close\nhost=127.0.0.1:{port}\nuser-agent=kube-probe/1.37");
    assert_eq!(defaults, expected);
    let custom = json!({"httpHeaders": [
        {"name": "Host", "value": "web.example"}, {"name": "X-A", "value": "1"}, {"name": "X-A", "value": "2"},
        {"name": "Accept", "value": ""}, {"name": "User-Agent", "value": "me"},
    ]});
    let custom = lines(probe(&server, "/headers", custom).await);
    assert_eq!(
        custom,
        "connection=close\nhost=web.example\nuser-agent=me\nx-a=1\nx-a=2"
    );
    let invalid = json!({"httpHeaders": [{"name": "a b", "value": ""}]});
    let Ok(ProbeAttempt::Failure(message)) = probe(&server, "/", invalid).await else {
        panic!("an invalid header must fail the probe");
    };
    assert!(
        message.ends_with("net/http: invalid header field name \"a b\""),
        "{message}"
    );
}

#[tokio::test]
async fn redirects_are_followed_on_the_same_host_only() {
    let server = serve(None).await;
    let port = server.address.port();
    let same = probe(&server, "/to/?/code/200", json!({})).await.unwrap();
    assert_eq!(same, ProbeAttempt::Success("body".to_owned()));
    let absolute = format!("/to/?http://127.0.0.1:{port}/code/500");
    let absolute = probe(&server, &absolute, json!({})).await.unwrap();
    assert_eq!(
        absolute,
        ProbeAttempt::Failure("HTTP probe failed with statuscode: 500".to_owned())
    );
    let other = probe(&server, "/to/?http://localhost:1/", json!({}))
        .await
        .unwrap();
    assert_eq!(
        other,
        ProbeAttempt::Warning("Probe terminated redirects, Response body: moved".to_owned())
    );
}

#[tokio::test]
async fn stops_after_ten_requests() {
    let server = serve(None).await;
    let ten_requests = probe(&server, "/redirects/9", json!({})).await.unwrap();
    assert_eq!(ten_requests, ProbeAttempt::Success("arrived".to_owned()));
    let eleven_requests = probe(&server, "/redirects/10", json!({})).await.unwrap();
    let ProbeAttempt::Failure(message) = eleven_requests else {
        panic!("too many redirects must fail the probe: {eleven_requests:?}");
    };
    assert!(message.ends_with("stopped after 10 redirects"), "{message}");
}

#[tokio::test]
async fn does_not_verify_certificates() {
    let server = serve(Some(self_signed())).await;
    let secure = probe(&server, "/", json!({"scheme": "HTTPS"})).await.unwrap();
    assert_eq!(secure, ProbeAttempt::Success("hello".to_owned()));
    let plain = serve(None).await;
    let ProbeAttempt::Failure(message) = probe(&plain, "/", json!({"scheme": "HTTPS"})).await.unwrap() else {
        panic!("a server without TLS must fail the probe");
    };
    assert!(
        message.starts_with(&format!("Get \"https://127.0.0.1:{}/\": ", plain.address.port())),
        "{message}"
    );
}

#[tokio::test]
async fn fails_if_server_does_not_respond() {
    let server = serve(None).await;
    let port = server.address.port();
    let slow = action(&server, "/slow", json!({}));
    let attempt = get(
        &slow,
        &Container::default(),
        "127.0.0.1",
        RequestPurpose::Probe,
        Duration::from_secs(1),
    )
    .await;
    let reason = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    let expected = format!("Get \"http://127.0.0.1:{port}/slow\": {reason}");
    assert_eq!(attempt.unwrap(), ProbeAttempt::Failure(expected));

    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let refused = probe(&server, "/", json!({"port": port})).await.unwrap();
    let reason = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(
        refused,
        ProbeAttempt::Failure(format!("Get \"http://127.0.0.1:{port}/\": {reason}"))
    );

    // A server that closes the connection without a response.
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            drop(listener.accept().await);
        }
    });
    let ProbeAttempt::Failure(message) = probe(&server, "/", json!({"port": port})).await.unwrap() else {
        panic!("a closed connection must fail the probe");
    };
    assert!(
        message.starts_with(&format!("Get \"http://127.0.0.1:{port}/\": ")),
        "{message}"
    );
}

#[tokio::test]
async fn any_response_succeeds_for_lifecycle_hooks() {
    let server = serve(None).await;
    let run_hook = async |path: &str| {
        let action = action(&server, path, json!({}));
        get(
            &action,
            &Container::default(),
            "127.0.0.1",
            RequestPurpose::LifecycleHook,
            LIMIT,
        )
        .await
    };
    assert_eq!(
        run_hook("/code/500").await.unwrap(),
        ProbeAttempt::Success("body".to_owned())
    );
    let ProbeAttempt::Success(headers) = run_hook("/headers").await.unwrap() else {
        panic!("any response is a success");
    };
    assert!(headers.contains("user-agent=kube-lifecycle/1.37"));
}
