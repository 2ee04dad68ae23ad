//! The audit context of one request: what the events of all its stages are built from.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use bytes::{Bytes, BytesMut};
use k3_api::{strategy::User, time::Time};

use super::{
    event::{AuditEvent, RecordedBody, RequestFacts, ResponseOutcome},
    log::Auditor,
    policy::{AuditLevel, AuditStage, RequestAuditConfig},
};
use crate::registry::AuditAnnotations;

/// A longer streamed response is not recorded.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

/// The attributes of a request that are known before its body is read. The audit policy is evaluated on them.
#[derive(Clone, Debug)]
pub(crate) struct AuditAttributes<'a> {
    /// The audit ID.
    pub id: &'a str,
    /// When the request was received.
    pub received: Time,
    /// The authenticated user; `None` if authentication failed.
    pub user: Option<&'a User>,
    /// The verb as in RBAC rules; for non-resource requests the HTTP method in lower case.
    pub verb: &'a str,
    pub path: &'a str,
    /// Path and query as received.
    pub uri: &'a str,
    pub agent: &'a str,
    /// Client addresses: those in `X-Forwarded-For` and `X-Real-Ip`, then the peer of the connection.
    pub sources: Vec<IpAddr>,
    /// The object of a resource request.
    pub object: Option<ObjectRef>,
}

/// The object of an audit event (`objectRef`).
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectRef {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

/// Collects what is recorded of one request, and writes an event at each stage.
// upstream: staging/src/k8s.io/apiserver/pkg/audit/context.go AuditContext
#[derive(Debug)]
pub(crate) struct AuditContext {
    auditor: Arc<Auditor>,
    facts: Arc<RequestFacts>,
    audit_config: RequestAuditConfig,
    impersonated: Option<Arc<(User, String)>>,
    request: Option<RecordedBody>,
    response: Option<RecordedBody>,
    /// The chunks of a streamed response; `None` once it is longer than [`MAX_RESPONSE_BYTES`].
    streamed_response: Option<BytesMut>,
    outcome: ResponseOutcome,
    annotations: Option<AuditAnnotations>,
}

// --- AuditContext ---

impl AuditContext {
    pub(super) fn new(auditor: Arc<Auditor>, facts: RequestFacts, audit_config: RequestAuditConfig) -> Self {
        AuditContext {
            auditor,
            facts: Arc::new(facts),
            audit_config,
            impersonated: None,
            request: None,
            response: None,
            streamed_response: None,
            outcome: ResponseOutcome::default(),
            annotations: None,
        }
    }

    /// Sets the audit annotations; the handlers add to them while the request is running.
    // upstream: staging/src/k8s.io/apiserver/pkg/audit/context.go AddAuditAnnotation
    pub(crate) fn set_annotations(&mut self, annotations: &AuditAnnotations) {
        self.annotations = Some(annotations.clone());
    }

    /// Records impersonation: the user, and the constrained verb if any.
    // upstream: staging/src/k8s.io/apiserver/pkg/audit/context.go LogImpersonatedUser
    pub(crate) fn log_impersonated_user(&mut self, user: &User, constraint: &str) {
        self.impersonated = Some(Arc::new((user.clone(), constraint.to_owned())));
    }

    /// Records the request body. It is needed below level `Request` too, for the name of a new object.
    // upstream: staging/src/k8s.io/apiserver/pkg/audit/request.go LogRequestObject
    pub(crate) fn log_request_object(&mut self, body: &Bytes, media: &str) {
        let has_object_name = matches!(&*self.facts.verb, "create" | "update") && self.facts.object.is_some();
        if !body.is_empty() && (self.audit_config.level >= AuditLevel::Request || has_object_name) {
            self.request = Some(RecordedBody::new(body.clone(), media));
        }
    }

    /// Records the status code, and the body if it is complete. Below level `RequestResponse` it only provides the error
    /// message.
    // upstream: staging/src/k8s.io/apiserver/pkg/audit/request.go LogResponseObject
    pub(crate) fn log_response_object(&mut self, code: u16, body: Option<&Bytes>, media: &str) {
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
            self.streamed_response = Some(BytesMut::new());
            self.response = Some(RecordedBody::new(Bytes::new(), media));
        }
    }

    /// Records a chunk of a streamed response.
    pub(crate) fn log_response_chunk(&mut self, chunk: &[u8]) {
        if let Some(streamed) = &mut self.streamed_response {
            streamed.extend_from_slice(chunk);
            if streamed.len() > MAX_RESPONSE_BYTES {
                self.streamed_response = None;
                self.response = None;
            }
        }
    }

    /// Writes the `ResponseStarted` event: the headers of a long-running response were sent.
    pub(crate) fn response_started(&mut self) {
        self.process_event_stage(AuditStage::ResponseStarted);
    }

    /// Writes the `ResponseComplete` event: the response was sent, or the client disconnected.
    pub(crate) fn response_complete(mut self) {
        if let (Some(streamed), Some(response)) = (self.streamed_response.take(), &mut self.response) {
            response.bytes = streamed.freeze();
        }
        if self.outcome.code == 0 {
            self.outcome = ResponseOutcome {
                code: 200,
                status: "Success",
                message: "Connection closed early".to_owned(),
                ..ResponseOutcome::default()
            };
        }
        self.process_event_stage(AuditStage::ResponseComplete);
    }

    /// Writes the `Panic` event: the handler panicked.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/audit.go WithAudit
    pub(crate) fn panicked(mut self, why: &str) {
        self.response = None;
        self.outcome = ResponseOutcome {
            code: 500,
            status: "Failure",
            reason: "InternalError",
            message: format!("APIServer panic'd: {why}"),
        };
        self.process_event_stage(AuditStage::Panic);
    }

    /// Writes the event of a request that was rejected before authentication completed.
    pub(super) fn authentication_failed(mut self, code: u16, message: String) {
        self.outcome = ResponseOutcome {
            code,
            message,
            ..ResponseOutcome::default()
        };
        self.process_event_stage(AuditStage::ResponseStarted);
    }

    /// Writes the event of a stage, unless `omitStages` of the matching rule or of the policy contains the stage.
    // upstream: staging/src/k8s.io/apiserver/pkg/audit/context.go ProcessEventStage; it checks OmitStages
    pub(super) fn process_event_stage(&mut self, stage: AuditStage) {
        if self.audit_config.omit_stages.has(stage) {
            return;
        }
        let is_last = matches!(stage, AuditStage::ResponseComplete | AuditStage::Panic);
        self.auditor.write(AuditEvent {
            facts: Arc::clone(&self.facts),
            level: self.audit_config.level,
            managed_fields: self.audit_config.managed_fields,
            stage,
            at: if stage == AuditStage::RequestReceived {
                self.facts.received
            } else {
                self.auditor.now()
            },
            impersonated: self.impersonated.clone(),
            outcome: (stage != AuditStage::RequestReceived).then(|| self.outcome.clone()),
            request: self.request.clone(),
            response: if is_last { self.response.take() } else { None },
            annotations: self
                .annotations
                .as_ref()
                .map_or_else(BTreeMap::new, AuditAnnotations::all),
        });
    }
}
