//! The attributes of a request for the audit log.

use std::net::IpAddr;

use http::{HeaderName, header};
use k3_api::{strategy::User, time::Time};

use super::handler::RequestHead;
use crate::{
    audit::{AuditAttributes, ObjectRef},
    authn::ConnectionPeer,
    authz::AuthorizationTarget,
};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// A request, as far as it is known.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/audit.go evaluatePolicyAndCreateAuditEvent
pub(super) fn audit_attributes<'a>(
    head: &'a RequestHead,
    peer: &ConnectionPeer,
    id: &'a str,
    user: Option<&'a User>,
    received: Time,
) -> AuditAttributes<'a> {
    let anonymous = User::default();
    let object = match head.info.action(&anonymous).what {
        AuthorizationTarget::Path(_) => None,
        AuthorizationTarget::Resource(object) => Some(ObjectRef {
            group: object.group.to_owned(),
            version: object.version.to_owned(),
            resource: object.resource.to_owned(),
            subresource: object.subresource.to_owned(),
            namespace: object.namespace.to_owned(),
            name: object.name.to_owned(),
        }),
    };
    AuditAttributes {
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

/// The authentication methods that a request attempted.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/authn_audit.go getAuthMethods
pub(super) fn attempts(head: &RequestHead, peer: &ConnectionPeer) -> String {
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

/// Source IPs of a request: those that proxies report, which are unverified, then the peer.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/net/http.go SourceIPs
fn sources(head: &RequestHead, peer: Option<IpAddr>) -> Vec<IpAddr> {
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
