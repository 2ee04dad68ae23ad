//! How a request becomes a conversation: which protocol both sides speak.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, header};

/// What the channels of a process are called, newest first.
const REMOTE_COMMAND: [&str; 4] = [
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
];
const PORT_FORWARD: [&str; 1] = ["portforward.k8s.io"];
/// The same within messages. Those that are text are told by their name.
const REMOTE_COMMAND_MESSAGES: [&str; 9] = [
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
const PORT_FORWARD_MESSAGES: [&str; 3] = [TUNNEL, "v4.channel.k8s.io", "v4.base64.channel.k8s.io"];
/// A whole connection of SPDY within the messages of a WebSocket.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const SPDY: &str = "SPDY/3.1";
const SPDY_VERSIONS: &str = "x-stream-protocol-version";
const ACCEPTED_VERSIONS: &str = "x-accepted-stream-protocol-versions";
/// What a WebSocket's key is completed with.
const ACCEPT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What carries the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) enum Carrier {
    /// Streams of SPDY that speak this version.
    Spdy(String),
    /// Messages of a WebSocket that speak this version; empty for none in particular.
    WebSocket(String),
    /// A connection of SPDY within a WebSocket.
    Tunnel,
}

/// A conversation that both sides agree on.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::server) struct Upgrade {
    pub carrier: Carrier,
    /// The headers of the answer.
    pub headers: HeaderMap,
}

/// Why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::server) struct Refusal {
    pub code: u16,
    pub message: String,
    /// What would have been understood.
    accepts: &'static [&'static str],
}

/// Agrees on how to talk to a process.
pub(in crate::server) fn remote_command(headers: &HeaderMap) -> Result<Upgrade, Refusal> {
    if is_websocket(headers) {
        return websocket(headers, &REMOTE_COMMAND_MESSAGES);
    }
    spdy(headers, &REMOTE_COMMAND)
}

/// Agrees on how to talk to ports.
pub(in crate::server) fn port_forward(headers: &HeaderMap) -> Result<Upgrade, Refusal> {
    if is_websocket(headers) {
        return websocket(headers, &PORT_FORWARD_MESSAGES);
    }
    spdy(headers, &PORT_FORWARD)
}

/// Whether a WebSocket is asked for.
fn is_websocket(headers: &HeaderMap) -> bool {
    text(headers, header::UPGRADE.as_str()).eq_ignore_ascii_case("websocket") && is_upgrade(headers)
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    let mut connection = headers.get_all(header::CONNECTION).iter();
    connection.any(|value| {
        value
            .to_str()
            .is_ok_and(|value| value.to_ascii_lowercase().contains("upgrade"))
    })
}

fn spdy(headers: &HeaderMap, known: &'static [&'static str]) -> Result<Upgrade, Refusal> {
    let has_spdy = text(headers, header::UPGRADE.as_str())
        .to_ascii_lowercase()
        .contains(&SPDY.to_ascii_lowercase());
    if !headers.contains_key(SPDY_VERSIONS) {
        return Err(Refusal::new(
            400,
            format!(
                "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with {} headers",
                headers.len()
            ),
        ));
    }
    let asked = listed(headers, SPDY_VERSIONS);
    if asked.is_empty() {
        return Err(Refusal::new(
            400,
            "unable to upgrade: header X-Stream-Protocol-Version is empty",
        ));
    }
    let Some(version) = asked.iter().find(|asked| known.contains(&asked.as_str())) else {
        let mut refusal = Refusal::new(
            403,
            format!(
                "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
                asked.join(" "),
                known.join(" ")
            ),
        );
        refusal.accepts = known;
        return Err(refusal);
    };
    if !is_upgrade(headers) || !has_spdy {
        return Err(Refusal::new(
            400,
            "unable to upgrade: missing upgrade headers in request",
        ));
    }
    let mut answer = answer(SPDY);
    set(&mut answer, SPDY_VERSIONS, version);
    Ok(Upgrade {
        carrier: Carrier::Spdy(version.clone()),
        headers: answer,
    })
}

fn websocket(headers: &HeaderMap, known: &[&str]) -> Result<Upgrade, Refusal> {
    let key = text(headers, header::SEC_WEBSOCKET_KEY.as_str());
    if key.is_empty() || text(headers, header::SEC_WEBSOCKET_VERSION.as_str()) != "13" {
        return Err(Refusal::new(
            400,
            "unable to upgrade: a WebSocket has a key, and the version 13",
        ));
    }
    let asked = listed(headers, header::SEC_WEBSOCKET_PROTOCOL.as_str());
    let version = match asked.iter().find(|asked| known.contains(&asked.as_str())) {
        Some(version) => version.clone(),
        None if asked.is_empty() => String::new(),
        None => {
            return Err(Refusal::new(
                403,
                format!(
                    "requested protocol(s) are not supported: [{}]; supports [{}]",
                    asked.join(" "),
                    known.join(" ")
                ),
            ));
        }
    };
    let mut answer = answer("websocket");
    let whole = [key.as_bytes(), ACCEPT.as_bytes()].concat();
    let sum = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, &whole);
    set(
        &mut answer,
        header::SEC_WEBSOCKET_ACCEPT.as_str(),
        &STANDARD.encode(sum),
    );
    if !version.is_empty() {
        set(&mut answer, header::SEC_WEBSOCKET_PROTOCOL.as_str(), &version);
    }
    Ok(Upgrade {
        carrier: if version == TUNNEL {
            Carrier::Tunnel
        } else {
            Carrier::WebSocket(version)
        },
        headers: answer,
    })
}

fn answer(upgrade: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(upgrade));
    headers
}

fn set(headers: &mut HeaderMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (
        header::HeaderName::from_bytes(name.as_bytes()),
        HeaderValue::from_str(value),
    ) {
        headers.insert(name, value);
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().trim()
}

/// All values of a header that is a list.
fn listed(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|value| value.trim().to_owned())
        .filter(|value| !value.is_empty())
        .collect()
}

// --- Refusal ---

impl Refusal {
    fn new(code: u16, message: impl Into<String>) -> Self {
        Refusal {
            code,
            message: message.into(),
            accepts: &[],
        }
    }

    /// The headers of the answer.
    pub(in crate::server) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for version in self.accepts {
            headers.append(ACCEPTED_VERSIONS, HeaderValue::from_static(version));
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

    fn asking(protocols: &str) -> HeaderMap {
        let mut all = WEBSOCKET.to_vec();
        all.push(("sec-websocket-protocol", protocols));
        headers(&all)
    }

    #[test]
    fn a_websocket_speaks_the_first_version_that_both_know() {
        for (asked, spoken) in [
            ("v5.channel.k8s.io", "v5.channel.k8s.io"),
            ("v9.channel.k8s.io, v4.channel.k8s.io", "v4.channel.k8s.io"),
            ("base64.channel.k8s.io", "base64.channel.k8s.io"),
        ] {
            let upgrade = remote_command(&asking(asked)).unwrap();
            assert_eq!(upgrade.carrier, Carrier::WebSocket(spoken.to_owned()));
            assert_eq!(upgrade.headers["sec-websocket-protocol"], spoken);
            assert_eq!(
                upgrade.headers["sec-websocket-accept"],
                "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
            );
        }
        let plain = remote_command(&headers(&WEBSOCKET)).unwrap();
        assert_eq!(plain.carrier, Carrier::WebSocket(String::new()));
        let refused = remote_command(&asking("chat")).unwrap_err();
        assert_eq!(refused.code, 403);
    }

    #[test]
    fn ports_are_tunnelled_for_who_asks_so() {
        let upgrade = port_forward(&asking("SPDY/3.1+portforward.k8s.io")).unwrap();
        assert_eq!(upgrade.carrier, Carrier::Tunnel);
        assert_eq!(
            upgrade.headers["sec-websocket-protocol"],
            "SPDY/3.1+portforward.k8s.io"
        );
    }

    #[test]
    fn spdy_needs_a_version_that_is_known() {
        let asked = |versions: &[&str]| {
            let mut all = vec![("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
            all.extend(versions.iter().map(|version| (SPDY_VERSIONS, *version)));
            remote_command(&headers(&all))
        };
        let upgrade = asked(&["v4.channel.k8s.io", "v3.channel.k8s.io"]).unwrap();
        assert_eq!(upgrade.carrier, Carrier::Spdy("v4.channel.k8s.io".to_owned()));
        assert_eq!(upgrade.headers[SPDY_VERSIONS], "v4.channel.k8s.io");
        let refused = asked(&["v7.channel.k8s.io"]).unwrap_err();
        assert_eq!(refused.code, 403);
        assert_eq!(refused.headers().get_all(ACCEPTED_VERSIONS).iter().count(), 4);
        assert_eq!(
            asked(&[]).unwrap_err().message,
            "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with 2 headers"
        );
        assert_eq!(
            remote_command(&headers(&[(SPDY_VERSIONS, "v4.channel.k8s.io")]))
                .unwrap_err()
                .code,
            400
        );
    }
}
