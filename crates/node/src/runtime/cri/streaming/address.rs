//! Where a runtime serves a stream.

use std::fmt;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{body::Incoming, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::runtime::RuntimeError;

use super::NoStream;

/// How much of a refusal is read.
const MOST_WORDS: usize = 4 << 10;

/// An address of the runtime's own server. It is good for one attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    host: String,
    port: u16,
    path: String,
}

/// What a stream became of.
pub(super) type Connection = TokioIo<Upgraded>;

// --- Address ---

impl Address {
    /// Only plain HTTP is spoken: runtimes serve streams on the loopback address.
    pub(super) fn parse(url: &str) -> Result<Self, RuntimeError> {
        let wrong =
            |why: &str| RuntimeError::Unsupported(format!("the runtime serves streams at {url}: {why}"));
        let uri: Uri = url.parse().map_err(|_| wrong("that is no address"))?;
        if uri.scheme_str() != Some("http") {
            return Err(wrong(
                "only http is spoken; turn off TLS for its streaming server",
            ));
        }
        let host = uri.host().ok_or_else(|| wrong("it names no host"))?;
        Ok(Address {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(80),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }

    /// A request that asks for another protocol.
    pub(super) fn request(&self, method: http::Method, protocol: &str) -> http::request::Builder {
        Request::builder()
            .method(method)
            .uri(&self.path)
            .header(header::HOST, self.authority())
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, protocol)
    }

    /// Sends the request, and hands over the connection if the runtime agrees.
    pub(super) async fn upgrade(
        &self,
        request: Request<Empty<Bytes>>,
    ) -> Result<(http::HeaderMap, Connection), NoStream> {
        let unreachable = |reason: String| {
            NoStream::Error(RuntimeError::Unreachable {
                runtime: format!("the runtime's streams at {self}"),
                reason,
            })
        };
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        // Keys are typed one by one.
        stream
            .set_nodelay(true)
            .map_err(|error| unreachable(error.to_string()))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        let exchange = async move {
            let response = sender.send_request(request).await?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Ok(Err(refusal(response).await));
            }
            let headers = response.headers().clone();
            let upgraded = hyper::upgrade::on(response).await?;
            Ok(Ok((headers, TokioIo::new(upgraded))))
        };
        // The connection moves only while it is polled, and ends with the exchange. What it says of its end is told there as well.
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

impl fmt::Display for Address {
    /// Without the path: whoever knows it can run the command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority())
    }
}

/// What a runtime says that refuses.
async fn refusal(response: Response<Incoming>) -> NoStream {
    let status = response.status();
    let words = Limited::new(response.into_body(), MOST_WORDS)
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let words = format!("{status} {}", String::from_utf8_lossy(&words).trim());
    match status {
        // Handshakes of other protocols are refused with these, before anything is begun.
        StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN | StatusCode::UPGRADE_REQUIRED => {
            NoStream::OtherProtocol(words)
        }
        _ => NoStream::Error(RuntimeError::Refused(format!(
            "the runtime refused the stream: {words}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let address = Address::parse("http://127.0.0.1:4123/exec/a?b=c").unwrap();
        assert_eq!(
            address,
            Address {
                host: "127.0.0.1".to_owned(),
                port: 4123,
                path: "/exec/a?b=c".to_owned(),
            }
        );
        assert_eq!(address.to_string(), "127.0.0.1:4123");
        assert_eq!(Address::parse("http://[::1]:1/x").unwrap().to_string(), "[::1]:1");
    }

    #[test]
    fn what_cannot_be_spoken_is_told() {
        for url in ["https://127.0.0.1:1/x", "/exec/a", "", "http://"] {
            assert!(
                matches!(Address::parse(url), Err(RuntimeError::Unsupported(_))),
                "{url}"
            );
        }
    }
}
