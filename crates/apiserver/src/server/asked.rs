//! What the audit log is told of a request when it is here.

use std::net::IpAddr;

use http::{HeaderName, header};
use k3_api::{strategy::User, time::Time};

use super::handler::Head;
use crate::{
    audit::{Asked, ObjectRef},
    authn::Peer,
    authz::What,
};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// A request, as far as it is known.
pub(super) fn asked<'a>(
    head: &'a Head,
    peer: &Peer,
    id: &'a str,
    user: Option<&'a User>,
    received: Time,
) -> Asked<'a> {
    let nobody = User::default();
    let object = match head.info.action(&nobody).what {
        What::Path(_) => None,
        What::Object(object) => Some(ObjectRef {
            group: object.group.to_owned(),
            version: object.version.to_owned(),
            resource: object.resource.to_owned(),
            subresource: object.subresource.to_owned(),
            namespace: object.namespace.to_owned(),
            name: object.name.to_owned(),
        }),
    };
    Asked {
        id,
        received,
        user,
        verb: &head.info.verb,
        path: &head.path,
        uri: &head.uri,
        agent: head.text(&header::USER_AGENT),
        sources: sources(head, peer.address.map(|address| address.ip())),
        object,
    }
}

/// Which ways somebody tried to prove who they are.
pub(super) fn attempts(head: &Head, peer: &Peer) -> String {
    let scheme = head
        .text(&header::AUTHORIZATION)
        .split(' ')
        .next()
        .unwrap_or_default()
        .to_lowercase();
    let mut tried: Vec<_> = ["basic", "bearer"]
        .into_iter()
        .filter(|known| *known == scheme)
        .collect();
    if peer.certificate.is_some() {
        tried.push("x509");
    }
    if tried.is_empty() {
        return "Authentication failed, no credentials provided".to_owned();
    }
    format!("Authentication failed, attempted: {}", tried.join(", "))
}

/// Where a request comes from: what proxies say, which may be anything, then who is at the other end.
fn sources(head: &Head, peer: Option<IpAddr>) -> Vec<IpAddr> {
    let parsed = |text: &str| text.trim().parse::<IpAddr>().ok();
    let mut found: Vec<_> = head.text(&FORWARDED_FOR).split(',').filter_map(parsed).collect();
    if let Some(real) = parsed(head.text(&REAL_IP))
        && !found.contains(&real)
    {
        found.push(real);
    }
    found.extend(peer.filter(|peer| found.last() != Some(peer)));
    found
}
