//! Service account issuer discovery: `/.well-known/openid-configuration` and `/openid/v1/jwks` (KEP-1393).

use std::net::SocketAddr;

use http::{HeaderValue, header};
use k3_api::status::Status;

use crate::{
    authn::Authenticator,
    http::{self as web, HttpResponse},
};

/// How long clients may cache the keys: a new key must be published that long before it signs.
const CACHED: &str = "public, max-age=3600";
const JSON: &str = "application/json";
const KEYS: &str = "application/jwk-set+json";

/// The answer to one of the paths of an issuer, which is found at an address; `None` if it is another path.
// upstream: pkg/routes/openidmetadata.go serveConfiguration, serveKeys
pub(super) fn answer(
    path: &str,
    accept: &str,
    authenticator: &Authenticator,
    address: SocketAddr,
) -> Option<Result<HttpResponse, Status>> {
    let (media, text) = match path.trim_end_matches('/') {
        "/.well-known/openid-configuration" => {
            (JSON, authenticator.issuer_configuration(&address.to_string()))
        }
        "/openid/v1/jwks" => (KEYS, authenticator.key_set()),
        _ => return None,
    };
    if media == KEYS && !accept.is_empty() && !accept.contains("*/*") && !accept.contains(media) {
        return Some(Err(web::refused(&[media])));
    }
    let mut answer = web::answer(200, media, text.to_string());
    answer
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHED));
    Some(Ok(answer))
}
