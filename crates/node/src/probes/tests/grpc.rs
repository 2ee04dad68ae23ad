//! Health checks of real servers.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpListener, task::JoinSet};

use super::LIMIT;
use crate::probes::{Found, grpc::look};

/// A server, for as long as it is kept.
struct Server {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

/// Says of each service what its name is: a number is a status, `none` a service that is not known, `slow` one that hangs.
async fn answer(request: Request<Incoming>) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let path = request.uri().path().to_owned();
    let agent = request.headers()["user-agent"].to_str().unwrap().to_owned();
    let asked = request.into_body().collect().await.unwrap().to_bytes();
    // Five bytes of length, then the field's tag and its length, if it is there.
    let service = String::from_utf8(asked.get(7..).unwrap_or_default().to_vec()).unwrap();
    let (code, message, body) = match &*service {
        _ if path != "/grpc.health.v1.Health/Check" || !agent.starts_with("kube-probe/1.37") => {
            ("13", "odd", None)
        }
        "none" => ("5", "unknown service", None),
        "old" => ("12", "unknown method", None),
        "slow" => std::future::pending().await,
        "" => ("0", "", Some(1)),
        number => ("0", "", Some(number.parse::<u8>().unwrap())),
    };
    let body = body.map_or_else(Bytes::new, |status| Bytes::from(vec![0, 0, 0, 0, 2, 8, status]));
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_str(code).unwrap());
    trailers.insert("grpc-message", HeaderValue::from_str(message).unwrap());
    let body = Full::new(body).with_trailers(std::future::ready(Some(Ok(trailers))));
    let response = Response::builder().header("content-type", "application/grpc");
    Ok(response.body(body.boxed()).unwrap())
}

async fn serve() -> Server {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let server = http2::Builder::new(TokioExecutor::new());
            connections.spawn(async move {
                let _ = server
                    .serve_connection(TokioIo::new(stream), service_fn(answer))
                    .await;
            });
        }
    });
    Server {
        address,
        _tasks: tasks,
    }
}

#[tokio::test]
async fn a_server_is_well_if_it_serves() {
    let server = serve().await;
    let unwell = |words: &str| Found::Unwell(words.to_owned());
    let cases = [
        ("", Found::Well("service healthy".to_owned())),
        ("1", Found::Well("service healthy".to_owned())),
        ("0", unwell("service unhealthy (responded with \"UNKNOWN\")")),
        ("2", unwell("service unhealthy (responded with \"NOT_SERVING\")")),
        (
            "3",
            unwell("service unhealthy (responded with \"SERVICE_UNKNOWN\")"),
        ),
        (
            "none",
            unwell("error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"),
        ),
        (
            "old",
            unwell(
                "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown method",
            ),
        ),
    ];
    for (service, expected) in cases {
        let found = look("127.0.0.1", server.address.port(), service, LIMIT).await;
        assert_eq!(found, expected, "{service}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_not() {
    let server = serve().await;
    let found = look("127.0.0.1", server.address.port(), "slow", Duration::from_secs(1)).await;
    let expected = "timeout: health rpc did not complete within 1s";
    assert_eq!(found, Found::Unwell(expected.to_owned()));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_waited_for_as_long_as_it_may_take() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let found = look("127.0.0.1", address.port(), "", Duration::from_secs(1)).await;
    let expected =
        format!("timeout: failed to connect service \"{address}\" within 1s: context deadline exceeded");
    assert_eq!(found, Found::Unwell(expected));
}
