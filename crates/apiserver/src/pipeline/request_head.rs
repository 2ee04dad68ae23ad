//! A request without its body.

use std::net::IpAddr;

use http::{HeaderMap, Method, Version, header};
use hyper::upgrade::OnUpgrade;
use k3_api::status::Status;
use parking_lot::Mutex;

use crate::{
    authn::ConnectionPeer,
    http::{self as web, Format, JsonLayout, MediaTypeOffer, NegotiatedMediaType, RequestBody},
    outgoing::ProxyRequest,
    request::{Query, RequestInfo},
};

/// A request without its body.
pub(super) struct RequestHead {
    /// What it wants, as authorization sees it.
    pub info: RequestInfo,
    pub method: Method,
    pub path: String,
    /// Path and query, as they were sent.
    pub uri: String,
    /// The host that is asked, perhaps with a port.
    pub host: String,
    pub query: Query,
    pub headers: HeaderMap,
    pub version: Version,
    pub layout: JsonLayout,
    /// Where it came from.
    address: Option<IpAddr>,
    /// The connection, if it can be upgraded, until it is taken.
    upgrade: Mutex<Option<OnUpgrade>>,
}

// --- RequestHead ---

impl RequestHead {
    pub(super) fn read(mut parts: http::request::Parts, peer: &ConnectionPeer) -> Self {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let text = |name| {
            let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default()
        };
        let agent = text(header::USER_AGENT);
        let is_read_by_people = ["curl", "Wget", "Mozilla/5.0"]
            .iter()
            .any(|program| agent.starts_with(program));
        let layout = match query.text("pretty") {
            "" if is_read_by_people => JsonLayout::Indented,
            "1" | "t" | "T" | "true" | "TRUE" | "True" => JsonLayout::Indented,
            _ => JsonLayout::Compact,
        };
        let host = parts.uri.authority().map_or_else(
            || text(header::HOST).to_owned(),
            |authority| authority.as_str().to_owned(),
        );
        RequestHead {
            info: RequestInfo::read(&parts.method, parts.uri.path(), &query),
            path: parts.uri.path().to_owned(),
            host,
            uri: parts
                .uri
                .path_and_query()
                .map(ToString::to_string)
                .unwrap_or_default(),
            query,
            version: parts.version,
            layout,
            address: peer.address.map(|address| address.ip()),
            upgrade: Mutex::new(parts.extensions.remove()),
            method: parts.method,
            headers: parts.headers,
        }
    }

    /// All of it, to be passed on.
    pub(super) fn passed(&self, body: RequestBody) -> ProxyRequest {
        ProxyRequest {
            method: self.method.clone(),
            headers: self.headers.clone(),
            path: self.path.clone(),
            query: self
                .uri
                .split_once('?')
                .map(|(_, query)| query.to_owned())
                .unwrap_or_default(),
            host: self.host.clone(),
            peer: self.address,
            upgrade: self.upgrade.lock().take(),
            body,
        }
    }

    /// A header; empty if it is not there or not text.
    pub(super) fn text(&self, name: &header::HeaderName) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// Whether it asks for a read.
    pub(super) fn is_read(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }

    /// Whether its query asks for a watch.
    pub(super) fn asks_for_watch(&self) -> bool {
        self.query.flag("watch").unwrap_or_default()
    }

    pub(super) fn accepted(&self, offer: MediaTypeOffer) -> Result<NegotiatedMediaType, Status> {
        web::negotiate(self.text(&header::ACCEPT), offer, self.layout)
    }

    /// The format of an error response: the negotiated one, if possible.
    pub(super) fn error_format(&self) -> Format {
        self.accepted(MediaTypeOffer::Object)
            .map_or(Format::Json, |accepted| accepted.format)
    }
}
