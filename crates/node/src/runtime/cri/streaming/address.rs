//! URL of a runtime's streaming server.

use std::fmt;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{body::Incoming, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::runtime::RuntimeError;

use super::StreamError;

/// Maximum size of an error body.
const MAX_MESSAGE: usize = 4 << 10;

/// Address of the runtime's streaming server. Valid for one attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StreamAddress {
    host: String,
    port: u16,
    path: String,
}

/// An upgraded connection.
pub(super) type UpgradedConnection = TokioIo<Upgraded>;

// --- StreamAddress ---

impl StreamAddress {
    /// Parses a URL. Only plain HTTP is supported: runtimes serve streams on the loopback address.
    pub(super) fn parse(url: &str) -> Result<Self, RuntimeError> {
        let unsupported =
            |why: &str| RuntimeError::Unsupported(format!("the runtime serves streams at {url}: {why}"));
        let uri: Uri = url.parse().map_err(|_| unsupported("invalid URL"))?;
        if uri.scheme_str() != Some("http") {
            return Err(unsupported(
                "only http is supported; disable TLS of the streaming server",
            ));
        }
        let host = uri.host().ok_or_else(|| unsupported("the URL has no host"))?;
        Ok(StreamAddress {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(80),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }

    /// Builds an upgrade request.
    pub(super) fn request(&self, method: http::Method, protocol: &str) -> http::request::Builder {
        Request::builder()
            .method(method)
            .uri(&self.path)
            .header(header::HOST, self.authority())
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, protocol)
    }

    /// Sends the request, and returns the upgraded connection.
    pub(super) async fn upgrade(
        &self,
        request: Request<Empty<Bytes>>,
    ) -> Result<(http::HeaderMap, UpgradedConnection), StreamError> {
        let unreachable = |reason: String| {
            StreamError::Error(RuntimeError::Unreachable {
                runtime: format!("the runtime's streams at {self}"),
                reason,
            })
        };
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        // Terminal input is sent key by key.
        stream
            .set_nodelay(true)
            .map_err(|error| unreachable(error.to_string()))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        let exchange = async move {
            let response = sender.send_request(request).await?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Ok(Err(rejection(response).await));
            }
            let headers = response.headers().clone();
            let upgraded = hyper::upgrade::on(response).await?;
            Ok(Ok((headers, TokioIo::new(upgraded))))
        };
        // The connection makes progress only while polled, and ends with the exchange, which also returns its error.
        let (_, exchanged) = tokio::join!(connection.with_upgrades(), exchange);
        let exchanged: Result<_, hyper::Error> = exchanged;
        exchanged.map_err(|error| unreachable(error.to_string()))?
    }

    fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for StreamAddress {
    /// Omits the path: it contains the token that permits the exec.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority())
    }
}

/// Converts an error response.
async fn rejection(response: Response<Incoming>) -> StreamError {
    let status = response.status();
    let message = Limited::new(response.into_body(), MAX_MESSAGE)
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let message = format!("{status} {}", String::from_utf8_lossy(&message).trim());
    match status {
        // Status codes of rejected handshakes; the command was not started.
        StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN | StatusCode::UPGRADE_REQUIRED => {
            StreamError::UnsupportedProtocol(message)
        }
        _ => StreamError::Error(RuntimeError::OperationFailed(format!(
            "the runtime refused the stream: {message}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_urls() {
        let address = StreamAddress::parse("http://127.0.0.1:4123/exec/a?b=c").unwrap();
        assert_eq!(
            address,
            StreamAddress {
                host: "127.0.0.1".to_owned(),
                port: 4123,
                path: "/exec/a?b=c".to_owned(),
            }
        );
        assert_eq!(address.to_string(), "127.0.0.1:4123");
        assert_eq!(
            StreamAddress::parse("http://[::1]:1/x").unwrap().to_string(),
            "[::1]:1"
        );
    }

    #[test]
    fn rejects_unsupported_urls() {
        for url in ["https://127.0.0.1:1/x", "/exec/a", "", "http://"] {
            assert!(
                matches!(StreamAddress::parse(url), Err(RuntimeError::Unsupported(_))),
                "{url}"
            );
        }
    }
}
