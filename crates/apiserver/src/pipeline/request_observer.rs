//! Observes one request and its response for metrics, the access log and the audit log.
//!
//! Promise: every request is counted once and logged once, however it ends: answered, rejected, timed out, cancelled by its
//! client, or by a panic.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, header};
use k3_api::{status::Status, strategy::User};
use tokio::time::Instant;

use super::{inflight::InflightPermit, request_head::RequestHead, watch_limits::WatchPermit};
use crate::{
    audit::AuditContext,
    authz::RequestIdentity,
    http::{BodyStream, HttpResponse, ResponseBody},
    metrics::{Metrics, RequestLabels, RequestSeries},
    outgoing::UpgradeTunnel,
    registry::{AuditAnnotations, RestStorage},
    request::{Route, Target},
};

/// Paths that are metric labels; others are reported as empty.
const PATHS: [&str; 9] = [
    "/healthz",
    "/livez",
    "/readyz",
    "/metrics",
    "/version",
    "/openapi/v2",
    "/openapi/v3",
    "/apis",
    "/api",
];

/// Observes one request until the last byte of its response.
pub(super) struct RequestObserver {
    id: HeaderValue,
    began: Instant,
    /// Whether it is long-running: a watch or a connection.
    is_long: bool,
    /// Whether the request has a user other than the anonymous one.
    is_authenticated: bool,
    /// A warning for the client, added to any response.
    warning: Option<String>,
    /// `None` if the audit policy does not match the request.
    audit_context: Option<Box<AuditContext>>,
    /// Counts the request against the in-flight limit, until its response is ready or a write task has taken it.
    permit: Option<InflightPermit>,
    /// Counts the watch against the limit of its user.
    watch_permit: Option<WatchPermit>,
    metrics: Arc<Metrics>,
    series: Arc<RequestSeries>,
    /// The access log line; `None` if it is off.
    line: Option<Box<LogLine>>,
    code: u16,
    bytes: u64,
    is_reported: bool,
}

struct LogLine {
    path: String,
    user: String,
}

/// A response body that is streamed after the request was answered.
struct ObservedBody {
    pieces: Box<dyn BodyStream>,
    exchange: RequestObserver,
}

// --- RequestObserver ---

impl RequestObserver {
    pub(super) fn begin(id: HeaderValue, head: &RequestHead, route: &Route, metrics: &Arc<Metrics>) -> Self {
        let series = metrics.requests.of(labels(head, route));
        let is_long = matches!(&*series.values[0], "WATCH" | "CONNECT");
        if is_long {
            series.metrics.running.add(1);
        }
        let line = tracing::enabled!(tracing::Level::DEBUG).then(|| {
            Box::new(LogLine {
                path: head.path.clone(),
                user: String::new(),
            })
        });
        RequestObserver {
            id,
            began: Instant::now(),
            is_long,
            is_authenticated: false,
            warning: None,
            audit_context: None,
            permit: None,
            watch_permit: None,
            metrics: Arc::clone(metrics),
            series,
            line,
            code: 0,
            bytes: 0,
            is_reported: false,
        }
    }

    /// The audit ID.
    pub(super) fn id(&self) -> &HeaderValue {
        &self.id
    }

    /// When the request arrived.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// Whether the request is long-running: a watch or a connection.
    pub(super) fn is_long(&self) -> bool {
        self.is_long
    }

    /// Whether the request has a user other than the anonymous one.
    pub(super) fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Audits the request from now on.
    pub(super) fn audit(&mut self, audit_context: Box<AuditContext>) {
        self.audit_context = Some(audit_context);
    }

    /// Called with the body of the request.
    pub(super) fn log_request_object(&mut self, body: &Bytes, media: &str) {
        if let Some(audit_context) = &mut self.audit_context {
            audit_context.log_request_object(body, media);
        }
    }

    /// Counts the request against the in-flight limit until its response is ready.
    pub(super) fn hold_seats(&mut self, permit: InflightPermit) {
        self.permit = Some(permit);
    }

    /// The seats of the request, if it has some.
    pub(super) fn seats(&mut self) -> Option<&mut InflightPermit> {
        self.permit.as_mut()
    }

    /// Takes the seats of the request, for work that may continue after the response.
    pub(super) fn take_seats(&mut self) -> Option<InflightPermit> {
        self.permit.take()
    }

    /// Counts the watch against the limit of its user until it ends.
    pub(super) fn hold_watch(&mut self, permit: WatchPermit) {
        self.watch_permit = Some(permit);
    }

    /// Adds a warning to the response, whichever it will be.
    pub(super) fn warn(&mut self, warning: Option<String>) {
        self.warning = warning;
    }

    /// Takes the warning for the client.
    pub(super) fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }

    /// Called when the request is authenticated.
    pub(super) fn set_user(&mut self, user: &User) {
        self.is_authenticated = !user.groups.iter().any(|group| group == "system:unauthenticated");
        self.metrics.authenticated(Some(&user.name));
        if let Some(line) = &mut self.line {
            line.user.clone_from(&user.name);
        }
    }

    /// Called when authentication failed.
    pub(super) fn authentication_failed(&self) {
        self.metrics.authenticated(None);
    }

    /// The effective user is known, perhaps an impersonated one.
    pub(super) fn acts_as(&mut self, identity: &RequestIdentity) {
        if let (Some(audit_context), Some(impersonator)) = (&mut self.audit_context, &identity.impersonator) {
            audit_context.log_impersonated_user(&identity.user, &impersonator.constraint);
        }
    }

    /// Called with the authorization decision.
    pub(super) fn decided(&self, decision: &Result<String, Status>, annotations: &AuditAnnotations) {
        self.metrics.authorized(decision);
        if self.audit_context.is_none() {
            return;
        }
        let (word, reason) = match decision {
            Ok(reason) => ("allow", reason.as_str()),
            Err(_) => ("forbid", ""),
        };
        annotations.add("authorization.k8s.io/decision", word);
        annotations.add("authorization.k8s.io/reason", reason);
    }

    /// Called when the request is rejected by the in-flight limit.
    pub(super) fn refused(&self) {
        self.series.metrics.refused.count();
    }

    /// Called when the request timed out.
    pub(super) fn timed_out(&self) {
        self.series.metrics.timed_out.count();
    }

    /// Called when the handler panicked.
    pub(super) fn panicked(&mut self, why: &str) {
        self.metrics.panics.count();
        if let Some(audit_context) = self.audit_context.take() {
            audit_context.panicked(why);
        }
    }

    /// The response is ready; observation continues with the body.
    pub(super) fn answered(mut self, answer: HttpResponse) -> HttpResponse {
        self.code = answer.status().as_u16();
        let (mut parts, body) = answer.into_parts();
        parts.headers.insert(super::request_id::AUDIT_ID, self.id.clone());
        let media = parts
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|media| media.to_str().ok())
            .unwrap_or_default();
        if let Some(audit_context) = &mut self.audit_context {
            let nothing = Bytes::new();
            let whole = match &body {
                ResponseBody::Whole(bytes) => Some(bytes),
                ResponseBody::Empty => Some(&nothing),
                ResponseBody::Stream(_) => None,
            };
            audit_context.log_response_object(self.code, whole, media);
            if self.is_long {
                audit_context.response_started();
            }
        }
        // A streaming response does not count against the in-flight limit: a slow reader would block other requests.
        self.permit = None;
        // An upgraded connection outlives the response: its tunnel keeps the observer.
        if let Some(tunnel) = parts.extensions.get::<UpgradeTunnel>() {
            let tunnel = tunnel.clone();
            tunnel.keep(self);
            return HttpResponse::from_parts(parts, body);
        }
        let body = match body {
            ResponseBody::Stream(pieces) => ResponseBody::Stream(Box::new(ObservedBody {
                pieces,
                exchange: self,
            })),
            whole => {
                if let ResponseBody::Whole(bytes) = &whole {
                    self.bytes = bytes.len() as u64;
                }
                self.report();
                whole
            }
        };
        HttpResponse::from_parts(parts, body)
    }

    /// Reports the request, once.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go MonitorRequest
    fn report(&mut self) {
        if std::mem::replace(&mut self.is_reported, true) {
            return;
        }
        let took = self.began.elapsed();
        let verb = &*self.series.values[0];
        let metrics = &self.series.metrics;
        if self.is_long {
            metrics.running.add(-1);
        }
        if self.code == 0 {
            metrics.aborted.count();
        } else {
            metrics.answered(
                self.code,
                took,
                matches!(verb, "GET" | "LIST").then_some(self.bytes),
            );
        }
        if let Some(audit_context) = self.audit_context.take() {
            audit_context.response_complete();
        }
        if let Some(line) = &self.line {
            let LogLine { path, user } = &**line;
            let id = self.id.to_str().unwrap_or_default();
            tracing::debug!(
                verb,
                path,
                user,
                code = self.code,
                ?took,
                bytes = self.bytes,
                id,
                "request"
            );
        }
    }
}

impl Drop for RequestObserver {
    fn drop(&mut self) {
        self.report();
    }
}

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go MonitorRequest, CleanVerb, CleanScope
fn labels<'l>(head: &'l RequestHead, route: &'l Route) -> RequestLabels<'l> {
    let Route::Resource(target) = route else {
        let path = |known: &&&str| {
            head.path
                .strip_prefix(**known)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        return RequestLabels {
            verb: method(head),
            subresource: PATHS.iter().find(path).copied().unwrap_or_default(),
            ..RequestLabels::default()
        };
    };
    let scope = scope(head, target);
    let verb = match method(head) {
        _ if RestStorage::of(target).is_connecter() => "CONNECT",
        "GET" if target.watch || (target.name.is_empty() && head.query.flag("watch") == Some(true)) => {
            "WATCH"
        }
        "GET" if scope != "resource" => "LIST",
        "PATCH" if head.text(&header::CONTENT_TYPE) == "application/apply-patch+yaml" => "APPLY",
        verb => verb,
    };
    let mut dry_run = head.query.all("dryRun");
    RequestLabels {
        verb,
        dry_run: match dry_run.next() {
            None => "",
            Some("All") if dry_run.all(|value| value == "All") => "All",
            Some(_) => "invalid",
        },
        group: &target.kind.group,
        version: &target.kind.version,
        resource: &target.kind.plural,
        subresource: target.part(),
        scope,
    }
}

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go CleanScope
fn scope(head: &RequestHead, target: &Target) -> &'static str {
    if !target.name.is_empty() || head.method == Method::POST {
        "resource"
    } else if !target.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}

fn method(head: &RequestHead) -> &'static str {
    match head.method.as_str() {
        "GET" | "HEAD" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

// --- ObservedBody ---

impl BodyStream for ObservedBody {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let polled = self.pieces.poll_piece(context);
        match &polled {
            Poll::Ready(Some(piece)) => {
                self.exchange.bytes += piece.len() as u64;
                if let Some(audit_context) = &mut self.exchange.audit_context {
                    audit_context.log_response_chunk(piece);
                }
            }
            Poll::Ready(None) => self.exchange.report(),
            Poll::Pending => {}
        }
        polled
    }

    fn is_long(&self) -> bool {
        self.pieces.is_long()
    }

    fn is_broken(&self) -> bool {
        self.pieces.is_broken()
    }

    fn broken(&mut self, why: &str) {
        self.exchange.panicked(why);
    }
}
