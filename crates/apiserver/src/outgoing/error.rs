//! Errors of outgoing calls, with upstream's messages.

use std::io;

use k3_api::{go, status::Status, strategy::Tree, time::Time};
use rustls::CertificateError;
use serde_json::Value;

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct CallError {
    text: String,
}

/// How much of an unexpected response is quoted.
const MAX_REPEATED: usize = 2048;

// --- CallError ---

impl CallError {
    /// A failure of its own.
    pub(super) fn new(text: impl Into<String>) -> Self {
        CallError { text: text.into() }
    }

    /// A call that was not answered.
    pub(super) fn post(url: &str, why: impl std::fmt::Display) -> Self {
        CallError::new(format!("Post {}: {why}", go::quote(url)))
    }

    /// The CA bundle is invalid.
    pub(super) fn authorities() -> Self {
        CallError::new("unable to load root certificates: unable to parse bytes as PEM block")
    }

    /// The error of a response that is not successful. If the body is a `Status`, its message is used.
    pub(super) fn answer(code: u16, media: &str, body: &[u8]) -> Self {
        let status = serde_json::from_slice::<Value>(body).ok().filter(|status| {
            status.is_object()
                && matches!(status.text("kind"), "" | "Status")
                && matches!(status.text("apiVersion"), "" | "v1")
                && status.text("status") != "Success"
        });
        if let Some(status) = status {
            return CallError::new(status.text("message"));
        }
        let message = if media.is_empty() || media.starts_with("text/") {
            let shown = &body[..body.len().min(MAX_REPEATED)];
            String::from_utf8_lossy(shown).trim().to_owned()
        } else {
            "unknown".to_owned()
        };
        CallError::new(Status::generic(code, &message).message)
    }

    /// An answer of success with nothing in it.
    pub(super) fn nothing(code: u16, media: &str) -> Self {
        CallError::new(format!(
            "0-length response with status code: {code} and content type: {media}"
        ))
    }
}

/// Why a connection could not be made.
pub(super) fn dial(address: &str, error: &io::Error) -> String {
    format!("dial tcp {address}: connect: {}", system(error))
}

/// An error of the system, as Go names it.
pub(super) fn system(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        _ => error.to_string().to_lowercase(),
    }
}

/// Why there is no secure connection.
pub(super) fn handshake(error: &io::Error, server: &str) -> String {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(problem)) => {
            format!(
                "tls: failed to verify certificate: x509: {}",
                certificate(problem, server)
            )
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        Some(rustls::Error::AlertReceived(alert)) => format!("remote error: tls: {}", alert_text(*alert)),
        Some(other) => format!("tls: {other}"),
        None => system(error),
    }
}

fn certificate(problem: &CertificateError, server: &str) -> String {
    match problem {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::NotValidForNameContext { presented, .. } => name_mismatch(presented, server),
        CertificateError::NotValidForName => name_mismatch(&[], server),
        CertificateError::ExpiredContext { time, not_after } => {
            expired(time.as_secs(), "after", not_after.as_secs())
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            expired(time.as_secs(), "before", not_before.as_secs())
        }
        other => other.to_string(),
    }
}

fn expired(now: u64, relation: &str, limit: u64) -> String {
    let shown = |seconds: u64| Time::from_unix(i64::try_from(seconds).unwrap_or_default(), 0).to_string();
    format!(
        "certificate has expired or is not yet valid: current time {} is {relation} {}",
        shown(now),
        shown(limit)
    )
}

/// A certificate for other names, given as `DnsName("a")` and `IpAddress(1.2.3.4)`.
fn name_mismatch(presented: &[String], server: &str) -> String {
    let is_address = server.parse::<std::net::IpAddr>().is_ok();
    let sort = if is_address { "IpAddress(" } else { "DnsName(" };
    let names: Vec<&str> = presented
        .iter()
        .filter_map(|name| name.strip_prefix(sort)?.strip_suffix(')'))
        .map(|name| name.trim_matches('"'))
        .collect();
    match names.as_slice() {
        [] if is_address => {
            format!("cannot validate certificate for {server} because it doesn't contain any IP SANs")
        }
        [] => format!("certificate is not valid for any names, but wanted to match {server}"),
        names => format!("certificate is valid for {}, not {server}", names.join(", ")),
    }
}

fn alert_text(alert: rustls::AlertDescription) -> String {
    match alert {
        rustls::AlertDescription::HandshakeFailure => "handshake failure".to_owned(),
        rustls::AlertDescription::CertificateRequired => "certificate required".to_owned(),
        rustls::AlertDescription::BadCertificate => "bad certificate".to_owned(),
        rustls::AlertDescription::InternalError => "internal error".to_owned(),
        rustls::AlertDescription::UnrecognisedName => "unrecognized name".to_owned(),
        rustls::AlertDescription::ProtocolVersion => "protocol version not supported".to_owned(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_texts_match_upstream() {
        let text = |code, media, body: &str| CallError::answer(code, media, body.as_bytes()).to_string();
        assert_eq!(
            text(404, "text/plain", "404 page not found"),
            "the server could not find the requested resource"
        );
        assert_eq!(
            text(500, "text/plain", " boom\n"),
            r#"an error on the server ("boom") has prevented the request from succeeding"#
        );
        assert_eq!(
            text(500, "application/json", "[]"),
            r#"an error on the server ("unknown") has prevented the request from succeeding"#
        );
        assert_eq!(
            text(302, "", ""),
            "the server responded with the status code 302 but did not return more information"
        );
        assert_eq!(
            text(
                500,
                "application/json",
                r#"{"kind":"Status","apiVersion":"v1","message":"no way","code":403}"#
            ),
            "no way"
        );
    }

    #[test]
    fn name_mismatch_lists_certificate_names() {
        let dns = ["DnsName(\"a\")".to_owned(), "IpAddress(1.2.3.4)".to_owned()];
        assert_eq!(name_mismatch(&dns, "b"), "certificate is valid for a, not b");
        assert_eq!(
            name_mismatch(&dns, "127.0.0.1"),
            "certificate is valid for 1.2.3.4, not 127.0.0.1"
        );
        assert_eq!(
            name_mismatch(&dns[..1], "127.0.0.1"),
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"
        );
    }
}
