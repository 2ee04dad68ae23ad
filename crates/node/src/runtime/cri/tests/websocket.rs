//! The streaming server of the fake CRI-O: version 5 `WebSockets` only.

use std::convert::Infallible;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{CloseFrame, Role, frame::coding::CloseCode},
    },
};

const PROTOCOL: &str = "v5.channel.k8s.io";

/// Serves streams while `tasks` lives, and returns the URL.
pub(super) async fn serve(tasks: &mut JoinSet<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.spawn(async move {
                let (upgrades, mut upgraded) = tokio::sync::mpsc::channel(1);
                let service = service_fn(move |request| handshake(request, upgrades.clone()));
                let serve = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades();
                // A rejected handshake closes the connection.
                let _ = serve.await;
                if let Some((command, upgrade)) = upgraded.recv().await {
                    run(&command, upgrade).await;
                }
            });
        }
    });
    address
}

type Upgrades = tokio::sync::mpsc::Sender<(String, OnUpgrade)>;

async fn handshake(
    mut request: Request<Incoming>,
    upgrades: Upgrades,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let header = |name: &str| {
        request
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    let offers = header("sec-websocket-protocol").unwrap_or_default();
    if !offers.split(',').any(|offer| offer.trim() == PROTOCOL) {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::FORBIDDEN;
        return Ok(response);
    }
    let text = format!(
        "{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11",
        header("sec-websocket-key").unwrap()
    );
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-accept", STANDARD.encode(digest))
        .header("sec-websocket-protocol", PROTOCOL)
        .body(Full::default())
        .unwrap();
    let path = request.uri().path().to_owned();
    upgrades
        .send((path, hyper::upgrade::on(&mut request)))
        .await
        .unwrap();
    Ok(response)
}

/// `/exec/cat` echoes until the input ends, then exits with 0. `/exec/fail/N` exits with N. `/exec/true` closes normally without a
/// status, like conmon-rs. `/exec/die` breaks the connection.
async fn run(path: &str, upgrade: OnUpgrade) {
    let upgraded = TokioIo::new(upgrade.await.unwrap());
    let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, None).await;
    let arguments: Vec<&str> = path.split('/').skip(2).collect();
    let status = match arguments[..] {
        ["cat"] => {
            while let Some(Ok(message)) = socket.next().await {
                let bytes = message.into_data();
                match bytes[..] {
                    [0, ..] => {
                        let echo = [&[1], &bytes[1..]].concat();
                        socket.send(Message::Binary(echo.into())).await.unwrap();
                    }
                    [255, 0] => break,
                    _ => {}
                }
            }
            let errors = Message::Binary(Bytes::from_static(b"\x02done\n"));
            socket.send(errors).await.unwrap();
            r#"{"metadata":{},"status":"Success"}"#.to_owned()
        }
        ["fail", code] => format!(
            r#"{{"metadata":{{}},"status":"Failure","reason":"NonZeroExitCode","details":{{"causes":[{{"reason":"ExitCode","message":"{code}"}}]}}}}"#
        ),
        ["true"] => {
            let farewell = CloseFrame {
                code: CloseCode::Normal,
                reason: "done".into(),
            };
            socket.close(Some(farewell)).await.unwrap();
            return;
        }
        _ => return,
    };
    let status = [b"\x03", status.as_bytes()].concat();
    socket.send(Message::Binary(status.into())).await.unwrap();
    let _ = socket.close(None).await;
}
