//! Authentication by loopback address, where enabled.
//!
//! Promises: only the peer address of the socket counts, never a header. A request that passed a proxy or was sent by a page in
//! a browser is not trusted, even if the proxy or browser runs on this machine.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, header};
use k3_api::strategy::User;

/// Headers that proxies add, besides all that begin with `x-forwarded`.
const PROXIES: [&str; 11] = [
    "cf-connecting-ip",
    "fastly-client-ip",
    "forwarded",
    "proxy-connection",
    "true-client-ip",
    "via",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-original-forwarded-for",
    "x-real-ip",
];

/// The user of unauthenticated requests from this machine.
pub(super) fn user() -> User {
    User {
        name: "k3:localhost".to_owned(),
        uid: "0".to_owned(),
        groups: vec!["system:masters".to_owned()],
        ..User::default()
    }
}

/// Whether a request was sent from this machine.
pub(super) fn is_local(peer: Option<SocketAddr>, host: &str, headers: &HeaderMap) -> bool {
    let is_forwarded = headers.keys().any(|name| {
        let name = name.as_str();
        name.starts_with("x-forwarded") || PROXIES.contains(&name)
    });
    // A page of another site that is open in a browser here can send requests to this machine; its browser says so.
    let is_from_page = headers.contains_key(header::ORIGIN)
        || headers
            .get("sec-fetch-site")
            .is_some_and(|site| site.as_bytes() != b"none");
    peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback())
        && !is_forwarded
        && !is_from_page
        && is_local_name(host)
}

/// Whether a host, perhaps with a port, is a name of this machine that no name server has a say in: others could lead a
/// browser here under a name of theirs.
fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(peer: &str, host: &str, headers: &[(&'static str, &str)]) -> bool {
        let headers = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        is_local(Some(peer.parse().unwrap()), host, &headers)
    }

    #[test]
    fn trusts_only_loopback_peer() {
        assert!(local("127.0.0.1:5", "127.0.0.1:6443", &[]));
        assert!(local("[::1]:5", "[::1]:6443", &[]));
        assert!(local("[::ffff:127.0.0.1]:5", "localhost", &[]));
        for header in ["x-forwarded-for", "x-real-ip", "forwarded", "x-client-ip"] {
            let said = [(header, "127.0.0.1")];
            assert!(!local("192.0.2.7:5", "127.0.0.1:6443", &said), "{header}");
        }
        assert!(!local("192.0.2.7:5", "localhost", &[]));
        assert!(!is_local(None, "localhost", &HeaderMap::new()));
    }

    #[test]
    fn rejects_proxied_requests() {
        for header in PROXIES
            .into_iter()
            .chain(["x-forwarded-for", "x-forwarded-proto"])
        {
            assert!(
                !local("127.0.0.1:5", "127.0.0.1:6443", &[(header, "127.0.0.1")]),
                "{header}"
            );
        }
        // One that tells nothing of itself still asks for the name by which it was asked.
        assert!(!local("127.0.0.1:5", "k3.example.com", &[]));
        assert!(!local("127.0.0.1:5", "", &[]));
    }

    #[test]
    fn rejects_browser_requests() {
        assert!(!local(
            "127.0.0.1:5",
            "localhost",
            &[("origin", "https://example.com")]
        ));
        assert!(!local(
            "127.0.0.1:5",
            "localhost",
            &[("sec-fetch-site", "cross-site")]
        ));
        assert!(local("127.0.0.1:5", "localhost", &[("sec-fetch-site", "none")]));
    }
}
