//! Protocol negotiation of streaming requests.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/httpstream.go Handshake, IsUpgradeRequest

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, header};

/// SPDY protocol versions of exec and attach, newest first.
const REMOTE_COMMAND_PROTOCOLS: [&str; 4] = [
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
];
const PORT_FORWARD_PROTOCOLS: [&str; 1] = ["portforward.k8s.io"];
/// WebSocket subprotocols of exec and attach. Those with `base64` use text messages.
const REMOTE_COMMAND_SUBPROTOCOLS: [&str; 9] = [
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "v3.channel.k8s.io",
    "v3.base64.channel.k8s.io",
    "v2.channel.k8s.io",
    "v2.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
];
const PORT_FORWARD_SUBPROTOCOLS: [&str; 3] = [TUNNEL, "v4.channel.k8s.io", "v4.base64.channel.k8s.io"];
/// Subprotocol for a SPDY connection tunneled in a WebSocket.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const SPDY: &str = "SPDY/3.1";
const STREAM_PROTOCOL_VERSION: &str = "x-stream-protocol-version";
const ACCEPTED_STREAM_PROTOCOL_VERSIONS: &str = "x-accepted-stream-protocol-versions";
/// GUID of the WebSocket handshake (RFC 6455).
const WEBSOCKET_GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The negotiated protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) enum StreamProtocol {
    /// SPDY with this protocol version.
    Spdy(String),
    /// WebSocket with this subprotocol; empty if the client requested none.
    WebSocket(String),
    /// SPDY tunneled in a WebSocket.
    Tunnel,
}

/// Result of a successful negotiation.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::server) struct Upgrade {
    pub protocol: StreamProtocol,
    /// Headers of the response.
    pub headers: HeaderMap,
}

/// The negotiation failed.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::server) struct UpgradeError {
    pub code: u16,
    pub message: String,
    /// Supported protocols, for the response headers.
    accepts: &'static [&'static str],
}

/// Negotiates the protocol of exec and attach.
pub(in crate::server) fn negotiate_remote_command(headers: &HeaderMap) -> Result<Upgrade, UpgradeError> {
    if is_websocket(headers) {
        return negotiate_websocket(headers, &REMOTE_COMMAND_SUBPROTOCOLS);
    }
    negotiate_spdy(headers, &REMOTE_COMMAND_PROTOCOLS)
}

/// Negotiates the protocol of port-forward.
pub(in crate::server) fn negotiate_port_forward(headers: &HeaderMap) -> Result<Upgrade, UpgradeError> {
    if is_websocket(headers) {
        return negotiate_websocket(headers, &PORT_FORWARD_SUBPROTOCOLS);
    }
    negotiate_spdy(headers, &PORT_FORWARD_PROTOCOLS)
}

/// Whether the request is a WebSocket handshake.
fn is_websocket(headers: &HeaderMap) -> bool {
    header_value(headers, header::UPGRADE.as_str()).eq_ignore_ascii_case("websocket") && is_upgrade(headers)
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    let mut connection = headers.get_all(header::CONNECTION).iter();
    connection.any(|value| {
        value
            .to_str()
            .is_ok_and(|value| value.to_ascii_lowercase().contains("upgrade"))
    })
}

fn negotiate_spdy(headers: &HeaderMap, supported: &'static [&'static str]) -> Result<Upgrade, UpgradeError> {
    let has_spdy = header_value(headers, header::UPGRADE.as_str())
        .to_ascii_lowercase()
        .contains(&SPDY.to_ascii_lowercase());
    if !headers.contains_key(STREAM_PROTOCOL_VERSION) {
        return Err(UpgradeError::new(
            400,
            format!(
                "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with {} headers",
                headers.len()
            ),
        ));
    }
    let requested = list_header(headers, STREAM_PROTOCOL_VERSION);
    if requested.is_empty() {
        return Err(UpgradeError::new(
            400,
            "unable to upgrade: header X-Stream-Protocol-Version is empty",
        ));
    }
    let Some(version) = requested
        .iter()
        .find(|requested| supported.contains(&requested.as_str()))
    else {
        let mut error = UpgradeError::new(
            403,
            format!(
                "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
                requested.join(" "),
                supported.join(" ")
            ),
        );
        error.accepts = supported;
        return Err(error);
    };
    if !is_upgrade(headers) || !has_spdy {
        return Err(UpgradeError::new(
            400,
            "unable to upgrade: missing upgrade headers in request",
        ));
    }
    let mut response_headers = upgrade_headers(SPDY);
    insert_header(&mut response_headers, STREAM_PROTOCOL_VERSION, version);
    Ok(Upgrade {
        protocol: StreamProtocol::Spdy(version.clone()),
        headers: response_headers,
    })
}

fn negotiate_websocket(headers: &HeaderMap, supported: &[&str]) -> Result<Upgrade, UpgradeError> {
    let key = header_value(headers, header::SEC_WEBSOCKET_KEY.as_str());
    if key.is_empty() || header_value(headers, header::SEC_WEBSOCKET_VERSION.as_str()) != "13" {
        return Err(UpgradeError::new(
            400,
            "unable to upgrade: invalid WebSocket handshake; Sec-WebSocket-Key and Sec-WebSocket-Version: 13 are required",
        ));
    }
    let requested = list_header(headers, header::SEC_WEBSOCKET_PROTOCOL.as_str());
    let version = match requested
        .iter()
        .find(|requested| supported.contains(&requested.as_str()))
    {
        Some(version) => version.clone(),
        None if requested.is_empty() => String::new(),
        None => {
            return Err(UpgradeError::new(
                403,
                format!(
                    "requested protocol(s) are not supported: [{}]; supports [{}]",
                    requested.join(" "),
                    supported.join(" ")
                ),
            ));
        }
    };
    let mut response_headers = upgrade_headers("websocket");
    let key_and_guid = [key.as_bytes(), WEBSOCKET_GUID.as_bytes()].concat();
    let sum = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, &key_and_guid);
    insert_header(
        &mut response_headers,
        header::SEC_WEBSOCKET_ACCEPT.as_str(),
        &STANDARD.encode(sum),
    );
    if !version.is_empty() {
        insert_header(
            &mut response_headers,
            header::SEC_WEBSOCKET_PROTOCOL.as_str(),
            &version,
        );
    }
    Ok(Upgrade {
        protocol: if version == TUNNEL {
            StreamProtocol::Tunnel
        } else {
            StreamProtocol::WebSocket(version)
        },
        headers: response_headers,
    })
}

fn upgrade_headers(upgrade: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(upgrade));
    headers
}

fn insert_header(headers: &mut HeaderMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (
        header::HeaderName::from_bytes(name.as_bytes()),
        HeaderValue::from_str(value),
    ) {
        headers.insert(name, value);
    }
}

fn header_value<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().trim()
}

/// The elements of a comma-separated header.
fn list_header(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|value| value.trim().to_owned())
        .filter(|value| !value.is_empty())
        .collect()
}

// --- UpgradeError ---

impl UpgradeError {
    fn new(code: u16, message: impl Into<String>) -> Self {
        UpgradeError {
            code,
            message: message.into(),
            accepts: &[],
        }
    }

    /// Additional headers of the response.
    pub(in crate::server) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for version in self.accepts {
            headers.append(
                ACCEPTED_STREAM_PROTOCOL_VERSIONS,
                HeaderValue::from_static(version),
            );
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(
                header::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        headers
    }

    const WEBSOCKET: [(&str, &str); 4] = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    fn websocket_request(protocols: &str) -> HeaderMap {
        let mut all = WEBSOCKET.to_vec();
        all.push(("sec-websocket-protocol", protocols));
        headers(&all)
    }

    #[test]
    fn selects_first_supported_subprotocol() {
        for (requested, negotiated) in [
            ("v5.channel.k8s.io", "v5.channel.k8s.io"),
            ("v9.channel.k8s.io, v4.channel.k8s.io", "v4.channel.k8s.io"),
            ("base64.channel.k8s.io", "base64.channel.k8s.io"),
        ] {
            let upgrade = negotiate_remote_command(&websocket_request(requested)).unwrap();
            assert_eq!(upgrade.protocol, StreamProtocol::WebSocket(negotiated.to_owned()));
            assert_eq!(upgrade.headers["sec-websocket-protocol"], negotiated);
            assert_eq!(
                upgrade.headers["sec-websocket-accept"],
                "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
            );
        }
        let plain = negotiate_remote_command(&headers(&WEBSOCKET)).unwrap();
        assert_eq!(plain.protocol, StreamProtocol::WebSocket(String::new()));
        let error = negotiate_remote_command(&websocket_request("chat")).unwrap_err();
        assert_eq!(error.code, 403);
    }

    #[test]
    fn negotiates_tunneled_port_forward() {
        let upgrade = negotiate_port_forward(&websocket_request("SPDY/3.1+portforward.k8s.io")).unwrap();
        assert_eq!(upgrade.protocol, StreamProtocol::Tunnel);
        assert_eq!(
            upgrade.headers["sec-websocket-protocol"],
            "SPDY/3.1+portforward.k8s.io"
        );
    }

    #[test]
    fn spdy_requires_supported_version() {
        let negotiate = |versions: &[&str]| {
            let mut all = vec![("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
            all.extend(versions.iter().map(|version| (STREAM_PROTOCOL_VERSION, *version)));
            negotiate_remote_command(&headers(&all))
        };
        let upgrade = negotiate(&["v4.channel.k8s.io", "v3.channel.k8s.io"]).unwrap();
        assert_eq!(
            upgrade.protocol,
            StreamProtocol::Spdy("v4.channel.k8s.io".to_owned())
        );
        assert_eq!(upgrade.headers[STREAM_PROTOCOL_VERSION], "v4.channel.k8s.io");
        let error = negotiate(&["v7.channel.k8s.io"]).unwrap_err();
        assert_eq!(error.code, 403);
        assert_eq!(
            error
                .headers()
                .get_all(ACCEPTED_STREAM_PROTOCOL_VERSIONS)
                .iter()
                .count(),
            4
        );
        assert_eq!(
            negotiate(&[]).unwrap_err().message,
            "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with 2 headers"
        );
        assert_eq!(
            negotiate_remote_command(&headers(&[(STREAM_PROTOCOL_VERSION, "v4.channel.k8s.io")]))
                .unwrap_err()
                .code,
            400
        );
    }
}
