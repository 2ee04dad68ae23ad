//! The stage that creates the audit context of a request.

use std::{net::IpAddr, sync::Arc};

use http::{HeaderName, header};
use k3_api::{strategy::User, time::Time};
use k3_task::Clock;

use super::{
    accept::AcceptedRequest, authenticate::AuthenticatedRequest, request_head::RequestHead,
    request_observer::RequestObserver,
};
use crate::{
    audit::{AuditAttributes, Auditor, ObjectRef},
    authn::ConnectionPeer,
    authz::AuthorizationTarget,
    registry::AuditAnnotations,
};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// Audits requests.
pub(crate) struct AuditingStage {
    /// `None` if there is no audit log.
    auditor: Option<Arc<Auditor>>,
    clock: Clock,
}

/// A request of a known user, with an audit context if the audit policy matches it.
pub(super) struct AuditedRequest<'r> {
    request: AcceptedRequest<'r>,
    user: User,
    annotations: AuditAnnotations,
}

// --- AuditingStage ---

impl AuditingStage {
    pub(crate) fn new(auditor: Option<Arc<Auditor>>, clock: Clock) -> Self {
        AuditingStage { auditor, clock }
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/audit.go WithAudit, evaluatePolicyAndCreateAuditEvent
    pub(super) fn run<'r>(&self, request: AuthenticatedRequest<'r>) -> AuditedRequest<'r> {
        let AuthenticatedRequest { request, user, .. } = request;
        let annotations = AuditAnnotations::default();
        if let Some(auditor) = &self.auditor {
            let id = request.observer.id().to_str().unwrap_or_default();
            let now = Time::from(self.clock.system_time());
            let attributes = audit_attributes(request.head, request.peer, id, Some(&user), now);
            if let Some(mut audit_context) = auditor.begin(attributes) {
                audit_context.set_annotations(&annotations);
                request.observer.audit(audit_context);
            }
        }
        AuditedRequest {
            request,
            user,
            annotations,
        }
    }

    /// Audits a request that failed before authentication completed.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/authn_audit.go WithFailedAuthenticationAudit
    pub(super) fn reject(
        &self,
        head: &RequestHead,
        peer: &ConnectionPeer,
        observer: &RequestObserver,
        code: u16,
        why: &str,
    ) {
        if let Some(auditor) = &self.auditor {
            let id = observer.id().to_str().unwrap_or_default();
            let now = Time::from(self.clock.system_time());
            let attributes = audit_attributes(head, peer, id, None, now);
            auditor.audit_authentication_failure(attributes, code, why.to_owned());
        }
    }

    /// Audits a request whose credentials were rejected.
    pub(super) fn reject_credentials(
        &self,
        head: &RequestHead,
        peer: &ConnectionPeer,
        observer: &RequestObserver,
        code: u16,
    ) {
        self.reject(head, peer, observer, code, &attempts(head, peer));
    }
}

// --- AuditedRequest ---

impl<'r> AuditedRequest<'r> {
    pub(super) fn into_parts(self) -> (AcceptedRequest<'r>, User, AuditAnnotations) {
        (self.request, self.user, self.annotations)
    }
}

/// A request, as far as it is known.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/audit.go evaluatePolicyAndCreateAuditEvent
fn audit_attributes<'a>(
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
fn attempts(head: &RequestHead, peer: &ConnectionPeer) -> String {
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
