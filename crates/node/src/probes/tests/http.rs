//! Requests to real servers.

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
    Found,
    http::{Purpose, get},
};

/// A server, for as long as it is kept.
struct Server {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

/// Answers: `/code/CODE`, `/to/WHERE`, `/headers`, `/long`, `/slow`, `/cut`.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let response = Response::builder();
    let (_, rest) = path[1..].split_once('/').unwrap_or(("", ""));
    let response = match path[1..].split('/').next().unwrap_or_default() {
        "code" => response
            .status(rest.parse::<u16>().unwrap())
            .body(Full::from("body")),
        "to" => {
            let to = request.uri().query().unwrap_or_default();
            response
                .status(StatusCode::FOUND)
                .header("location", to)
                .body(Full::from("moved"))
        }
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

async fn serve(tls: Option<TlsAcceptor>) -> Server {
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
                            .serve_connection(TokioIo::new(stream), service_fn(answer))
                            .await
                    }
                    Some(tls) => {
                        let Ok(stream) = tls.accept(stream).await else {
                            return;
                        };
                        server
                            .serve_connection(TokioIo::new(stream), service_fn(answer))
                            .await
                    }
                };
            });
        }
    });
    Server {
        address,
        _tasks: tasks,
    }
}

/// With a certificate that nobody vouches for, of another name.
fn self_signed() -> TlsAcceptor {
    let made = rcgen::generate_simple_self_signed(vec!["elsewhere.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    let config = config
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn action(server: &Server, path: &str, mut more: Value) -> HTTPGetAction {
    more["path"] = json!(path);
    if more.get("port").is_none() {
        more["port"] = json!(server.address.port());
    }
    serde_json::from_value(more).unwrap()
}

async fn look(server: &Server, path: &str, more: Value) -> Result<Found, String> {
    let container = json!({"name": "a", "ports": [{"name": "web", "containerPort": server.address.port()}]});
    let container: Container = serde_json::from_value(container).unwrap();
    let action = action(server, path, more);
    get(&action, &container, "127.0.0.1", Purpose::Probe, LIMIT).await
}

#[tokio::test]
async fn an_answer_is_well_by_its_code() {
    let server = serve(None).await;
    let port = server.address.port();
    let unwell = |code: u16| Found::Unwell(format!("HTTP probe failed with statuscode: {code}"));
    let cases = [
        ("/code/200", Found::Well("body".to_owned())),
        ("/code/204", Found::Well(String::new())),
        (
            "/code/304",
            Found::Warning("Probe terminated redirects, Response body: ".to_owned()),
        ),
        ("/code/400", unwell(400)),
        ("/code/503", unwell(503)),
    ];
    for (path, expected) in cases {
        assert_eq!(look(&server, path, json!({})).await.unwrap(), expected, "{path}");
    }
    let named = look(&server, "/", json!({"port": "web"})).await;
    assert_eq!(named.unwrap(), Found::Well("hello".to_owned()));
    let nobody = look(&server, "/", json!({"port": "none"})).await;
    assert_eq!(nobody.unwrap_err(), "port \"none\" not found");
    let Ok(Found::Well(long)) = look(&server, "/long", json!({})).await else {
        panic!("a long answer is an answer");
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
async fn headers_are_those_of_the_action_and_our_own() {
    let server = serve(None).await;
    let port = server.address.port();
    let lines = |found: Result<Found, String>| match found.unwrap() {
        Found::Well(text) => text,
        other => panic!("{other:?}"),
    };
    let plain = lines(look(&server, "/headers", json!({})).await);
    let expected = format!("accept=*/*\nconnection=close\nhost=127.0.0.1:{port}\nuser-agent=kube-probe/1.37");
    assert_eq!(plain, expected);
    let own = json!({"httpHeaders": [
        {"name": "Host", "value": "web.example"}, {"name": "X-A", "value": "1"}, {"name": "X-A", "value": "2"},
        {"name": "Accept", "value": ""}, {"name": "User-Agent", "value": "me"},
    ]});
    let own = lines(look(&server, "/headers", own).await);
    assert_eq!(
        own,
        "connection=close\nhost=web.example\nuser-agent=me\nx-a=1\nx-a=2"
    );
    let broken = json!({"httpHeaders": [{"name": "a b", "value": ""}]});
    let Ok(Found::Unwell(words)) = look(&server, "/", broken).await else {
        panic!("no such header can be sent");
    };
    assert!(
        words.ends_with("net/http: invalid header field name \"a b\""),
        "{words}"
    );
}

#[tokio::test]
async fn redirects_are_followed_on_the_same_host_only() {
    let server = serve(None).await;
    let port = server.address.port();
    let same = look(&server, "/to/?/code/200", json!({})).await.unwrap();
    assert_eq!(same, Found::Well("body".to_owned()));
    let absolute = format!("/to/?http://127.0.0.1:{port}/code/500");
    let absolute = look(&server, &absolute, json!({})).await.unwrap();
    assert_eq!(
        absolute,
        Found::Unwell("HTTP probe failed with statuscode: 500".to_owned())
    );
    let other = look(&server, "/to/?http://localhost:1/", json!({}))
        .await
        .unwrap();
    assert_eq!(
        other,
        Found::Warning("Probe terminated redirects, Response body: moved".to_owned())
    );
    let Found::Unwell(words) = look(&server, "/to/?/to/", json!({})).await.unwrap() else {
        panic!("there is no end of it");
    };
    assert!(
        words.contains("Response body") || words.ends_with("stopped after 10 redirects"),
        "{words}"
    );
}

#[tokio::test]
async fn certificates_are_not_checked() {
    let server = serve(Some(self_signed())).await;
    let secure = look(&server, "/", json!({"scheme": "HTTPS"})).await.unwrap();
    assert_eq!(secure, Found::Well("hello".to_owned()));
    let plain = serve(None).await;
    let Found::Unwell(words) = look(&plain, "/", json!({"scheme": "HTTPS"})).await.unwrap() else {
        panic!("it speaks no TLS");
    };
    assert!(
        words.starts_with(&format!("Get \"https://127.0.0.1:{}/\": ", plain.address.port())),
        "{words}"
    );
}

#[tokio::test]
async fn who_does_not_answer_is_not_well() {
    let server = serve(None).await;
    let port = server.address.port();
    let slow = action(&server, "/slow", json!({}));
    let found = get(
        &slow,
        &Container::default(),
        "127.0.0.1",
        Purpose::Probe,
        Duration::from_secs(1),
    )
    .await;
    let late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    let expected = format!("Get \"http://127.0.0.1:{port}/slow\": {late}");
    assert_eq!(found.unwrap(), Found::Unwell(expected));

    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let gone = look(&server, "/", json!({"port": port})).await.unwrap();
    let why = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(
        gone,
        Found::Unwell(format!("Get \"http://127.0.0.1:{port}/\": {why}"))
    );

    // One that hangs up.
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            drop(listener.accept().await);
        }
    });
    let Found::Unwell(words) = look(&server, "/", json!({"port": port})).await.unwrap() else {
        panic!("nothing was answered");
    };
    assert!(
        words.starts_with(&format!("Get \"http://127.0.0.1:{port}/\": ")),
        "{words}"
    );
}

#[tokio::test]
async fn for_a_hook_any_answer_will_do() {
    let server = serve(None).await;
    let ask = async |path: &str| {
        let action = action(&server, path, json!({}));
        get(
            &action,
            &Container::default(),
            "127.0.0.1",
            Purpose::Lifecycle,
            LIMIT,
        )
        .await
    };
    assert_eq!(ask("/code/500").await.unwrap(), Found::Well("body".to_owned()));
    let Found::Well(headers) = ask("/headers").await.unwrap() else {
        panic!("it was answered");
    };
    assert!(headers.contains("user-agent=kube-lifecycle/1.37"));
}
