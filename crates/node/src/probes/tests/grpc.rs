//! gRPC probes of a real server.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpListener, task::JoinSet};

use super::LIMIT;
use crate::probes::{ProbeAttempt, kinds::grpc::probe};

/// A gRPC server that runs until it is dropped.
struct HealthServer {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

/// Responds according to the name of the service: a number is the serving status, `none` an unknown service, `old` a server
/// without the health protocol, `slow` never responds.
async fn respond(request: Request<Incoming>) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let path = request.uri().path().to_owned();
    let user_agent = request.headers()["user-agent"].to_str().unwrap().to_owned();
    let message = request.into_body().collect().await.unwrap().to_bytes();
    // Five bytes of gRPC framing, then tag and length of the field `service`, unless it is empty.
    let service = String::from_utf8(message.get(7..).unwrap_or_default().to_vec()).unwrap();
    let (code, message, body) = match &*service {
        _ if path != "/grpc.health.v1.Health/Check" || !user_agent.starts_with("kube-probe/1.37") => {
            ("13", "unexpected request", None)
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

async fn serve() -> HealthServer {
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
                    .serve_connection(TokioIo::new(stream), service_fn(respond))
                    .await;
            });
        }
    });
    HealthServer {
        address,
        _tasks: tasks,
    }
}

#[tokio::test]
async fn succeeds_if_status_is_serving() {
    let server = serve().await;
    let failure = |message: &str| ProbeAttempt::Failure(message.to_owned());
    let cases = [
        ("", ProbeAttempt::Success("service healthy".to_owned())),
        ("1", ProbeAttempt::Success("service healthy".to_owned())),
        ("0", failure("service unhealthy (responded with \"UNKNOWN\")")),
        ("2", failure("service unhealthy (responded with \"NOT_SERVING\")")),
        (
            "3",
            failure("service unhealthy (responded with \"SERVICE_UNKNOWN\")"),
        ),
        (
            "none",
            failure("error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"),
        ),
        (
            "old",
            failure(
                "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown method",
            ),
        ),
    ];
    for (service, expected) in cases {
        let attempt = probe("127.0.0.1", server.address.port(), service, LIMIT).await;
        assert_eq!(attempt, expected, "{service}");
    }
}

#[tokio::test]
async fn fails_if_response_times_out() {
    let server = serve().await;
    let attempt = probe("127.0.0.1", server.address.port(), "slow", Duration::from_secs(1)).await;
    let expected = "timeout: health rpc did not complete within 1s";
    assert_eq!(attempt, ProbeAttempt::Failure(expected.to_owned()));
}

#[tokio::test]
async fn retries_connection_until_timeout() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let attempt = probe("127.0.0.1", address.port(), "", Duration::from_secs(1)).await;
    let expected =
        format!("timeout: failed to connect service \"{address}\" within 1s: context deadline exceeded");
    assert_eq!(attempt, ProbeAttempt::Failure(expected));
}
