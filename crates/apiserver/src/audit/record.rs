//! The audit context of one request, from stage to stage.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use bytes::{Bytes, BytesMut};
use k3_api::{strategy::User, time::Time};

use super::{
    event::{AuditEvent, RecordedBody, RequestFacts, ResponseOutcome},
    log::Auditor,
    policy::{AuditLevel, AuditStage, RequestAuditConfig},
};
use crate::registry::AuditAnnotations;

/// A streamed response is recorded up to this size; a longer one is omitted.
const LONGEST: usize = 16 * 1024 * 1024;

/// A request, as far as it is known when it is here.
#[derive(Clone, Debug)]
pub(crate) struct AuditAttributes<'a> {
    /// The request's own name.
    pub id: &'a str,
    /// When the request was received.
    pub received: Time,
    /// Who asks; `None` if that is not known.
    pub user: Option<&'a User>,
    /// The verb, as roles have it; of what is no resource, the method in small letters.
    pub verb: &'a str,
    /// The path.
    pub path: &'a str,
    /// Path and query, as they were sent.
    pub uri: &'a str,
    /// The user agent.
    pub agent: &'a str,
    /// Where it comes from: what proxies say, then the other end of the connection.
    pub sources: Vec<IpAddr>,
    /// Which resource it is about, if any.
    pub object: Option<ObjectRef>,
}

/// Which resource a request is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectRef {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

/// A request that is written down.
// upstream: staging/src/k8s.io/apiserver/pkg/audit/context.go AuditContext
#[derive(Debug)]
pub(crate) struct AuditContext {
    auditor: Arc<Auditor>,
    facts: Arc<RequestFacts>,
    audit_config: RequestAuditConfig,
    acts_as: Option<Arc<(User, String)>>,
    request: Option<RecordedBody>,
    response: Option<RecordedBody>,
    /// An answer in pieces, until it is whole or too long.
    pieces: Option<BytesMut>,
    outcome: ResponseOutcome,
    notes: Option<AuditAnnotations>,
}

// --- AuditContext ---

impl AuditContext {
    pub(super) fn new(auditor: Arc<Auditor>, facts: RequestFacts, audit_config: RequestAuditConfig) -> Self {
        AuditContext {
            auditor,
            facts: Arc::new(facts),
            audit_config,
            acts_as: None,
            request: None,
            response: None,
            pieces: None,
            outcome: ResponseOutcome::default(),
            notes: None,
        }
    }

    /// Adds the audit annotations of the request.
    pub(crate) fn note(&mut self, notes: &AuditAnnotations) {
        self.notes = Some(notes.clone());
    }

    /// Records impersonation: the user, and the constrained verb if any.
    pub(crate) fn acts_as(&mut self, user: &User, constraint: &str) {
        self.acts_as = Some(Arc::new((user.clone(), constraint.to_owned())));
    }

    /// Records the request body. It is needed below level `Request` too, for the name of a new object.
    pub(crate) fn sent(&mut self, body: &Bytes, media: &str) {
        let has_object_name = matches!(&*self.facts.verb, "create" | "update") && self.facts.object.is_some();
        if !body.is_empty() && (self.audit_config.level >= AuditLevel::Request || has_object_name) {
            self.request = Some(RecordedBody::new(body.clone(), media));
        }
    }

    /// Records the status code, and the body if it is complete. Below level `RequestResponse` it only provides the error
    /// message.
    pub(crate) fn answered(&mut self, code: u16, body: Option<&Bytes>, media: &str) {
        self.outcome.code = code;
        let may_be_status = code >= 400 || self.facts.verb.starts_with("delete");
        if let Some(body) = body
            && (self.audit_config.level >= AuditLevel::RequestResponse || may_be_status)
        {
            self.response = Some(RecordedBody::new(body.clone(), media));
        }
        if body.is_none()
            && self.audit_config.level >= AuditLevel::RequestResponse
            && &*self.facts.verb != "watch"
        {
            self.pieces = Some(BytesMut::new());
            self.response = Some(RecordedBody::new(Bytes::new(), media));
        }
    }

    /// A piece of the answer.
    pub(crate) fn piece(&mut self, piece: &[u8]) {
        if let Some(pieces) = &mut self.pieces {
            pieces.extend_from_slice(piece);
            if pieces.len() > LONGEST {
                self.pieces = None;
                self.response = None;
            }
        }
    }

    /// The answer has begun and will go on.
    pub(crate) fn started(&mut self) {
        self.emit(AuditStage::ResponseStarted);
    }

    /// The response was sent, or the client disconnected.
    pub(crate) fn complete(mut self) {
        if let (Some(pieces), Some(response)) = (self.pieces.take(), &mut self.response) {
            response.bytes = pieces.freeze();
        }
        if self.outcome.code == 0 {
            self.outcome = ResponseOutcome {
                code: 200,
                status: "Success",
                message: "Connection closed early".to_owned(),
                ..ResponseOutcome::default()
            };
        }
        self.emit(AuditStage::ResponseComplete);
    }

    /// The server failed at it.
    pub(crate) fn panicked(mut self, why: &str) {
        self.response = None;
        self.outcome = ResponseOutcome {
            code: 500,
            status: "Failure",
            reason: "InternalError",
            message: format!("APIServer panic'd: {why}"),
        };
        self.emit(AuditStage::Panic);
    }

    /// The request was rejected before authentication completed.
    pub(super) fn refused(mut self, code: u16, message: String) {
        self.outcome = ResponseOutcome {
            code,
            message,
            ..ResponseOutcome::default()
        };
        self.emit(AuditStage::ResponseStarted);
    }

    pub(super) fn emit(&mut self, stage: AuditStage) {
        if self.audit_config.omit.has(stage) {
            return;
        }
        let is_last = matches!(stage, AuditStage::ResponseComplete | AuditStage::Panic);
        self.auditor.write(AuditEvent {
            facts: Arc::clone(&self.facts),
            level: self.audit_config.level,
            omit_managed_fields: self.audit_config.omit_managed_fields,
            stage,
            at: if stage == AuditStage::RequestReceived {
                self.facts.received
            } else {
                self.auditor.now()
            },
            acts_as: self.acts_as.clone(),
            outcome: (stage != AuditStage::RequestReceived).then(|| self.outcome.clone()),
            request: self.request.clone(),
            response: if is_last { self.response.take() } else { None },
            annotations: self
                .notes
                .as_ref()
                .map_or_else(BTreeMap::new, AuditAnnotations::all),
        });
    }
}
