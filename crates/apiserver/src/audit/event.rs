//! Audit events: one stage of one request, serialized as a JSON line.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use bytes::Bytes;
use k3_api::{
    encode,
    strategy::{Tree, TreeMut, User},
    time::Time,
};
use serde_json::{Map, Value, json};

use super::{
    body,
    context::{AuditAttributes, ObjectRef},
    policy::{AuditLevel, AuditStage, ManagedFieldsPolicy},
};

/// Longer user agents are truncated.
const MAX_AGENT_BYTES: usize = 1024;

/// One audit event: one stage of one request.
// upstream: staging/src/k8s.io/apiserver/pkg/apis/audit/types.go Event
#[derive(Debug)]
pub(super) struct AuditEvent {
    pub facts: Arc<RequestFacts>,
    pub level: AuditLevel,
    pub managed_fields: ManagedFieldsPolicy,
    pub stage: AuditStage,
    pub at: Time,
    pub impersonated: Option<Arc<(User, String)>>,
    pub outcome: Option<ResponseOutcome>,
    pub request: Option<RecordedBody>,
    pub response: Option<RecordedBody>,
    pub annotations: BTreeMap<String, String>,
}

/// The fields that all events of a request share.
#[derive(Debug)]
pub(super) struct RequestFacts {
    pub id: Box<str>,
    pub received: Time,
    pub user: Option<User>,
    pub verb: Box<str>,
    pub uri: Box<str>,
    pub agent: Box<str>,
    pub sources: Vec<IpAddr>,
    pub object: Option<ObjectRef>,
}

/// The outcome of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponseOutcome {
    /// The status code; 0 until the response is known.
    pub code: u16,
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

/// A recorded request or response body.
#[derive(Clone, Debug)]
pub(super) struct RecordedBody {
    pub bytes: Bytes,
    pub media: Box<str>,
}

/// Builds a JSON object as text; fields keep the order in which they are added.
struct JsonLine(String);

// --- RequestFacts ---

impl RequestFacts {
    pub(super) fn new(attributes: AuditAttributes<'_>) -> Self {
        let agent = match attributes
            .agent
            .char_indices()
            .find(|(at, _)| *at >= MAX_AGENT_BYTES)
        {
            Some((end, _)) => format!("{}...TRUNCATED", &attributes.agent[..end]).into(),
            None => attributes.agent.into(),
        };
        RequestFacts {
            id: attributes.id.into(),
            received: attributes.received,
            user: attributes.user.cloned(),
            verb: attributes.verb.into(),
            uri: attributes.uri.into(),
            agent,
            sources: attributes.sources,
            object: attributes.object,
        }
    }
}

// --- RecordedBody ---

impl RecordedBody {
    pub(super) fn new(bytes: Bytes, media: &str) -> Self {
        RecordedBody {
            bytes,
            media: media.into(),
        }
    }

    fn tree(&self, managed_fields: ManagedFieldsPolicy) -> Option<Value> {
        let mut tree = body::tree(&self.bytes, &self.media)?;
        if managed_fields == ManagedFieldsPolicy::Omit {
            forget_managed_fields(&mut tree);
        }
        Some(tree)
    }
}

/// Takes out who manages which fields: of an object, of the items of a list, of the rows of a table.
fn forget_managed_fields(tree: &mut Value) {
    if let Some(metadata) = tree.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    for item in tree
        .get_mut("items")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        forget_managed_fields(item);
    }
    for row in tree
        .get_mut("rows")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(object) = row.get_mut("object") {
            forget_managed_fields(object);
        }
    }
}

// --- AuditEvent ---

impl AuditEvent {
    /// How much memory it holds, roughly.
    pub(super) fn weight(&self) -> usize {
        let sent = |sent: &Option<RecordedBody>| sent.as_ref().map_or(0, |sent| sent.bytes.len());
        1024 + sent(&self.request) + sent(&self.response)
    }

    /// The line, with its end.
    pub(super) fn line(&self) -> Vec<u8> {
        let facts = &self.facts;
        let request = self
            .request
            .as_ref()
            .and_then(|sent| sent.tree(self.managed_fields));
        let response = self
            .response
            .as_ref()
            .and_then(|sent| sent.tree(self.managed_fields));
        let mut line = JsonLine(String::from(r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1""#));
        line.text("level", self.level.word());
        line.text("auditID", &facts.id);
        line.text("stage", self.stage.word());
        line.text("requestURI", &facts.uri);
        line.text("verb", &facts.verb);
        line.value("user", &facts.user.as_ref().map_or_else(|| json!({}), user));
        if let Some((impersonated, constraint)) = self.impersonated.as_deref() {
            line.value("impersonatedUser", &user(impersonated));
            if !constraint.is_empty() {
                line.value(
                    "authenticationMetadata",
                    &json!({"impersonationConstraint": constraint}),
                );
            }
        }
        if !facts.sources.is_empty() {
            line.value(
                "sourceIPs",
                &facts.sources.iter().map(ToString::to_string).collect(),
            );
        }
        if !facts.agent.is_empty() {
            line.text("userAgent", &facts.agent);
        }
        if let Some(object) = &facts.object {
            line.value("objectRef", &reference(object, request.as_ref()));
        }
        if let Some(outcome) = &self.outcome {
            line.value("responseStatus", &outcome.to_status(response.as_ref()));
        }
        if let Some(request) = request.filter(|_| self.level >= AuditLevel::Request) {
            line.raw("requestObject", &encode::encode(&request));
        }
        if let Some(response) = response.filter(|_| self.level >= AuditLevel::RequestResponse) {
            line.raw("responseObject", &encode::encode(&response));
        }
        line.text("requestReceivedTimestamp", &facts.received.micro());
        line.text("stageTimestamp", &self.at.micro());
        if !self.annotations.is_empty() {
            let annotations: Map<_, _> = self
                .annotations
                .iter()
                .map(|(key, value)| (key.clone(), value.clone().into()))
                .collect();
            line.value("annotations", &Value::Object(annotations));
        }
        line.0.push_str("}\n");
        line.0.into_bytes()
    }
}

fn user(user: &User) -> Value {
    let mut value = json!({"username": user.name});
    if !user.uid.is_empty() {
        value.set("uid", user.uid.clone());
    }
    if !user.groups.is_empty() {
        value.set("groups", user.groups.clone());
    }
    if !user.extra.is_empty() {
        let extra: Map<_, _> = user
            .extra
            .iter()
            .map(|(key, values)| (key.clone(), values.clone().into()))
            .collect();
        value.set("extra", extra);
    }
    value
}

/// The object reference. The name of a new object is taken from the request body.
fn reference(object: &ObjectRef, request: Option<&Value>) -> Value {
    let said = |field: &str| request.map_or("", |request| request.at("metadata").text(field));
    let first = |known: &str, field: &str| {
        if known.is_empty() {
            said(field).to_owned()
        } else {
            known.to_owned()
        }
    };
    let fields = [
        ("resource", object.resource.clone()),
        ("namespace", first(&object.namespace, "namespace")),
        ("name", first(&object.name, "name")),
        ("uid", said("uid").to_owned()),
        ("apiGroup", object.group.clone()),
        ("apiVersion", object.version.clone()),
        ("resourceVersion", said("resourceVersion").to_owned()),
        ("subresource", object.subresource.clone()),
    ];
    let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
    Value::Object(
        fields
            .map(|(field, value)| (field.to_owned(), value.into()))
            .collect(),
    )
}

// --- ResponseOutcome ---

impl ResponseOutcome {
    /// The response status: that of the body, if it is a `Status`.
    fn to_status(&self, response: Option<&Value>) -> Value {
        let mut value = json!({"metadata": {}});
        for (field, text) in [
            ("status", self.status),
            ("message", &self.message),
            ("reason", self.reason),
        ] {
            if !text.is_empty() {
                value.set(field, text);
            }
        }
        if let Some(status) = response.filter(|response| response.text("kind") == "Status") {
            for field in ["status", "message", "reason", "details"] {
                value.copy_from(field, status);
            }
        }
        value.set("code", self.code);
        value
    }
}

// --- JsonLine ---

impl JsonLine {
    fn text(&mut self, field: &str, text: &str) {
        self.value(field, &text.into());
    }

    fn value(&mut self, field: &str, value: &Value) {
        self.raw(field, value.to_string().as_bytes());
    }

    fn raw(&mut self, field: &str, json: &[u8]) {
        self.0.push_str(",\"");
        self.0.push_str(field);
        self.0.push_str("\":");
        self.0.push_str(&String::from_utf8_lossy(json));
    }
}
