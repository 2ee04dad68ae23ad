//! One request and its answer, as those see it who watch over the server: figures, the access log, the audit log.
//!
//! Promise: every request is counted once and told once, however it ends: answered, refused, out of time, given up by its client,
//! or by a panic.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, header};
use k3_api::{status::Status, strategy::User};
use tokio::time::Instant;

use super::{handler::Head, inflight::Permit, watchers::Seat};
use crate::{
    audit::Record,
    authz::Identity,
    http::{Answer, Body, Pieces},
    metrics::{Metrics, RequestLabels, RequestSeries},
    outgoing::Tunnel,
    registry::Notes,
    request::{Route, Target},
};

/// Subresources that are a conversation, and not an answer.
const CONNECTIONS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];
/// Paths that are told in figures; others are told as none.
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

/// Whether a subresource is a conversation, and not an answer.
pub(super) fn is_connection(part: &str) -> bool {
    CONNECTIONS.contains(&part)
}

/// One request, from its first byte to the last one of its answer.
pub(super) struct Exchange {
    pub id: HeaderValue,
    pub began: Instant,
    /// Whether it goes on for as long as it likes: a watch, a connection.
    pub is_long: bool,
    pub notes: Notes,
    /// Whether it is known who asks, and that it is not just anybody.
    pub is_known: bool,
    /// What the client is told beside its answer, whatever that is.
    pub warning: Option<String>,
    /// What is written down, if it is.
    pub record: Option<Box<Record>>,
    /// Its place among those that are served at once.
    pub permit: Option<Permit>,
    /// Its place among the watches of its user.
    pub seat: Option<Seat>,
    metrics: Arc<Metrics>,
    series: Arc<RequestSeries>,
    /// What the access log tells of it; `None` if there is none.
    line: Option<Box<LogLine>>,
    code: u16,
    bytes: u64,
    is_told: bool,
}

struct LogLine {
    path: String,
    user: String,
}

/// The body of an answer that goes on after the request was answered.
struct Observed {
    pieces: Box<dyn Pieces>,
    exchange: Exchange,
}

// --- Exchange ---

impl Exchange {
    pub(super) fn begin(id: HeaderValue, head: &Head, place: &Route, metrics: &Arc<Metrics>) -> Self {
        let series = metrics.requests.of(labels(head, place));
        let is_long = matches!(&*series.values[0], "WATCH" | "CONNECT");
        if is_long {
            series.figures.running.add(1);
        }
        let line = tracing::enabled!(tracing::Level::DEBUG).then(|| {
            Box::new(LogLine {
                path: head.path.clone(),
                user: String::new(),
            })
        });
        Exchange {
            id,
            began: Instant::now(),
            is_long,
            notes: Notes::default(),
            is_known: false,
            warning: None,
            record: None,
            permit: None,
            seat: None,
            metrics: Arc::clone(metrics),
            series,
            line,
            code: 0,
            bytes: 0,
            is_told: false,
        }
    }

    /// It is known who asks.
    pub(super) fn asked_by(&mut self, user: &User) {
        self.is_known = !user.groups.iter().any(|group| group == "system:unauthenticated");
        self.metrics.authenticated(Some(&user.name));
        if let Some(line) = &mut self.line {
            line.user.clone_from(&user.name);
        }
    }

    /// It is not known who asks.
    pub(super) fn asked_by_nobody(&self) {
        self.metrics.authenticated(None);
    }

    /// Who it is answered for is known: perhaps somebody else than who asks.
    pub(super) fn acts_as(&mut self, identity: &Identity) {
        if let (Some(record), Some(impersonator)) = (&mut self.record, &identity.impersonator) {
            record.acts_as(&identity.user, &impersonator.constraint);
        }
    }

    /// It was decided whether it may be done, and why.
    pub(super) fn decided(&self, decision: &Result<String, Status>) {
        self.metrics.authorized(decision.is_ok());
        if self.record.is_none() {
            return;
        }
        let (word, reason) = match decision {
            Ok(reason) => ("allow", reason.as_str()),
            Err(_) => ("forbid", ""),
        };
        self.notes.add("authorization.k8s.io/decision", word);
        self.notes.add("authorization.k8s.io/reason", reason);
    }

    /// It was refused because there are too many.
    pub(super) fn refused(&self) {
        self.series.figures.refused.count();
    }

    /// It took too long.
    pub(super) fn timed_out(&self) {
        self.series.figures.timed_out.count();
    }

    /// It panicked. The answer follows.
    pub(super) fn panicked(&mut self, why: &str) {
        self.metrics.panics.count();
        if let Some(record) = self.record.take() {
            record.panicked(why);
        }
    }

    /// It is answered; what is left of it goes with the body.
    pub(super) fn answered(mut self, answer: Answer) -> Answer {
        self.code = answer.status().as_u16();
        let (mut parts, body) = answer.into_parts();
        parts.headers.insert(super::request_id::AUDIT_ID, self.id.clone());
        let media = parts
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|media| media.to_str().ok())
            .unwrap_or_default();
        if let Some(record) = &mut self.record {
            let nothing = Bytes::new();
            let whole = match &body {
                Body::Whole(bytes) => Some(bytes),
                Body::Empty => Some(&nothing),
                Body::Pieces(_) => None,
            };
            record.answered(self.code, whole, media);
            if self.is_long {
                record.started();
            }
        }
        // What streams has its place no longer: who reads slowly would keep out others.
        self.permit = None;
        // A conversation has only begun; what is left of it goes with it.
        if let Some(tunnel) = parts.extensions.get::<Tunnel>() {
            let tunnel = tunnel.clone();
            tunnel.keep(self);
            return Answer::from_parts(parts, body);
        }
        let body = match body {
            Body::Pieces(pieces) => Body::Pieces(Box::new(Observed {
                pieces,
                exchange: self,
            })),
            whole => {
                if let Body::Whole(bytes) = &whole {
                    self.bytes = bytes.len() as u64;
                }
                self.tell();
                whole
            }
        };
        Answer::from_parts(parts, body)
    }

    /// Tells of it, once.
    fn tell(&mut self) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        let took = self.began.elapsed();
        let verb = &*self.series.values[0];
        let figures = &self.series.figures;
        if self.is_long {
            figures.running.add(-1);
        }
        if self.code == 0 {
            figures.aborted.count();
        } else {
            figures.answered(
                self.code,
                took,
                matches!(verb, "GET" | "LIST").then_some(self.bytes),
            );
        }
        if let Some(record) = self.record.take() {
            record.complete();
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

impl Drop for Exchange {
    fn drop(&mut self) {
        self.tell();
    }
}

fn labels<'l>(head: &'l Head, place: &'l Route) -> RequestLabels<'l> {
    let Route::Resource(target) = place else {
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
        _ if is_connection(target.part()) => "CONNECT",
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

fn scope(head: &Head, target: &Target) -> &'static str {
    if !target.name.is_empty() || head.method == Method::POST {
        "resource"
    } else if !target.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}

fn method(head: &Head) -> &'static str {
    match head.method.as_str() {
        "GET" | "HEAD" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

// --- Observed ---

impl Pieces for Observed {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let polled = self.pieces.poll_piece(context);
        match &polled {
            Poll::Ready(Some(piece)) => {
                self.exchange.bytes += piece.len() as u64;
                if let Some(record) = &mut self.exchange.record {
                    record.piece(piece);
                }
            }
            Poll::Ready(None) => self.exchange.tell(),
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
