//! The token that a request bears: in its `Authorization` header, or, of a WebSocket that cannot set headers, among the
//! protocols it offers.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, header};
use k3_api::base64;

const EXTRA_SPACE: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";
const PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The bearer token in an `Authorization` header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bearer<'h> {
    /// No token.
    Nothing,
    /// A malformed header that is ignored; the client is warned.
    Ignored(&'static str),
    /// A token.
    Token(&'h str),
}

/// Reads the text of an `Authorization` header.
// upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/bearertoken/bearertoken.go AuthenticateRequest
pub(super) fn bearer(text: &str) -> Bearer<'_> {
    let mut parts = text.trim().splitn(3, ' ');
    let is_bearer = parts
        .next()
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    match (is_bearer, parts.next(), parts.next()) {
        (true, Some(""), Some(_)) => Bearer::Ignored(EXTRA_SPACE),
        (true, Some(token), _) if !token.is_empty() => Bearer::Token(token),
        _ => Bearer::Nothing,
    }
}

/// The text of a header, of which the first counts. Bytes that are no text stay visible as such: a credential that
/// cannot be read is not none.
pub(super) fn text(headers: &HeaderMap, name: HeaderName) -> Cow<'_, str> {
    headers.get(name).map_or(Cow::Borrowed(""), |value| {
        String::from_utf8_lossy(value.as_bytes())
    })
}

/// The token that a WebSocket bears.
// upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/websocket/protocol.go AuthenticateRequest
pub(super) fn websocket(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    let has_token = |name, word: &str| {
        let mut values = headers.get_all(name).iter();
        values.any(|value| {
            let text = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
            text.split(',').any(|part| part.trim() == word)
        })
    };
    if !has_token(header::CONNECTION, "upgrade") || !has_token(header::UPGRADE, "websocket") {
        return Ok(None);
    }
    let mut token = None;
    let mut others = 0;
    for value in headers.get_all(header::SEC_WEBSOCKET_PROTOCOL) {
        let value = String::from_utf8_lossy(value.as_bytes());
        for protocol in value.split(',').map(str::trim) {
            let Some(encoded) = protocol.strip_prefix(PROTOCOL) else {
                others += 1;
                continue;
            };
            if token.is_some() {
                return Err("multiple base64.bearer.authorization tokens specified");
            }
            let bytes = base64::decode_url(encoded)
                .map_err(|_| "invalid base64.bearer.authorization token encoding")?;
            let text = String::from_utf8(bytes).map_err(|_| "invalid base64.bearer.authorization token")?;
            token = Some(text);
        }
    }
    match token.filter(|token| !token.is_empty()) {
        // Something must be left to answer with.
        Some(_) if others == 0 => Err("missing additional subprotocol"),
        token => Ok(token),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_authorization_header() {
        for (header, borne) in [
            ("Bearer abc", Bearer::Token("abc")),
            ("  bEaReR abc  ", Bearer::Token("abc")),
            ("Bearer abc def ghi", Bearer::Token("abc")),
            ("Bearer  abc", Bearer::Ignored(EXTRA_SPACE)),
            ("Bearer ", Bearer::Nothing),
            ("Bearer", Bearer::Nothing),
            ("Bearer\tabc", Bearer::Nothing),
            ("Basic YTpi", Bearer::Nothing),
            ("abc", Bearer::Nothing),
            ("", Bearer::Nothing),
        ] {
            assert_eq!(bearer(header), borne, "{header:?}");
        }
    }

    fn offer(protocols: &[&str]) -> Result<Option<String>, &'static str> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, "keep-alive, Upgrade".parse().unwrap());
        headers.insert(header::UPGRADE, "websocket".parse().unwrap());
        for protocol in protocols {
            headers.append(header::SEC_WEBSOCKET_PROTOCOL, protocol.parse().unwrap());
        }
        websocket(&headers)
    }

    #[test]
    fn reads_websocket_protocol_token() {
        let token = format!("{PROTOCOL}{}", base64::encode_url(b"s3cret"));
        let both = format!("v5.channel.k8s.io, {token}");
        assert_eq!(offer(&[&both]), Ok(Some("s3cret".to_owned())));
        assert_eq!(offer(&["a", &token]), Ok(Some("s3cret".to_owned())));
        assert_eq!(offer(&["a"]), Ok(None));
        assert_eq!(offer(&[&token]), Err("missing additional subprotocol"));
        assert!(offer(&["a", &token, &token]).is_err());
        assert!(offer(&["a", &format!("{PROTOCOL}!")]).is_err());
        assert!(offer(&["a", &format!("{PROTOCOL}_w")]).is_err());
        let mut headers = HeaderMap::new();
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, both.parse().unwrap());
        assert_eq!(websocket(&headers), Ok(None), "it is no WebSocket");
    }
}
