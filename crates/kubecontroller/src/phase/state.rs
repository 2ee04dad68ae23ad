//! What a machine remembers of its handlers, in the status of the object.

use std::collections::BTreeMap;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// What is known of one handler: of the handler of a phase, or of a child of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// Whether it has ended, well or badly. It is not run again.
    pub done: bool,
    /// When it was first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<MicroTime>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<MicroTime>,
    /// Whether its last run failed.
    #[serde(skip_serializing_if = "is_default")]
    pub failed: bool,
    /// Whether the failure cannot be repaired by another try.
    #[serde(skip_serializing_if = "is_default")]
    pub fatal: bool,
    /// What its last run warned of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// What its last run failed of. Of a handler with children, the children say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many runs in a row have failed. Counted for the handler of a phase, not for children.
    // Servers warn of the format `uint32`, which is none of OpenAPI's.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "i32")]
    pub failures: u32,
    /// Its children, by name.
    // A schema that contains itself is no schema of a custom resource: below the first level anything may stand.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "any_tree")]
    pub state: BTreeMap<String, State>,
    /// What a handler of objects has to do, and has done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectState>,
}

/// One of the things a handler of objects works on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectState {
    /// What tells it apart from the others.
    pub id: String,
    /// What people call it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Objects of one group are handed over together.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// What the handler calls its work on it: the id of a task elsewhere, for example.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub handle_id: String,
    /// Whether the work on it has ended, well or badly.
    pub done: bool,
    /// When it was first handed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<MicroTime>,
    /// When the work on it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<MicroTime>,
    /// What users should know of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// What failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How far a handler, a phase or an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum HandlerResult {
    /// Not begun.
    Pending,
    /// Begun, not ended.
    Doing,
    /// Ended well.
    Succeeded,
    /// Ended well, with a warning.
    Warning,
    /// Ended badly.
    Failed,
}

// --- State ---

impl State {
    /// How far it is.
    pub fn result(&self) -> HandlerResult {
        result(self.done, self.start_time.is_some(), || match &self.warning {
            _ if self.failed || self.fatal => HandlerResult::Failed,
            Some(_) => HandlerResult::Warning,
            None => HandlerResult::Succeeded,
        })
    }

    /// When it last came further: its end, else its start.
    pub fn timestamp(&self) -> Option<&MicroTime> {
        self.end_time.as_ref().or(self.start_time.as_ref())
    }

    /// Marks it as begun, if it was not.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.start_time.get_or_insert_with(|| stamp(now));
    }

    /// Marks it as ended.
    pub(super) fn end(&mut self, now: Timestamp) {
        self.done = true;
        self.end_time = Some(stamp(now));
    }

    /// Marks it as ended badly, for good.
    pub(super) fn end_badly(&mut self, now: Timestamp, error: String) {
        self.begin(now);
        self.end(now);
        self.failed = true;
        self.fatal = true;
        self.error = Some(error);
    }
}

impl ObjectState {
    /// An object to be worked on.
    pub fn new(id: impl Into<String>) -> Self {
        ObjectState {
            id: id.into(),
            ..ObjectState::default()
        }
    }

    /// With what people call it.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// With the group it is handed over with.
    #[must_use]
    pub fn grouped(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }

    /// The same, ended well.
    #[must_use]
    pub fn finished(mut self) -> Self {
        self.done = true;
        self.error = None;
        self
    }

    /// The same, with a warning.
    #[must_use]
    pub fn warned(mut self, warning: impl Into<String>) -> Self {
        self.warning = Some(warning.into());
        self
    }

    /// The same, ended badly. The others are worked on all the same; the handler fails when all have ended.
    #[must_use]
    pub fn failed(mut self, error: impl Into<String>) -> Self {
        self.done = true;
        self.error = Some(error.into());
        self
    }

    /// How far it is.
    pub fn result(&self) -> HandlerResult {
        result(self.done, self.start_time.is_some(), || {
            match (&self.error, &self.warning) {
                (Some(_), _) => HandlerResult::Failed,
                (None, Some(_)) => HandlerResult::Warning,
                (None, None) => HandlerResult::Succeeded,
            }
        })
    }
}

/// How far something is that has, or has not, ended; and if so, how.
fn result(done: bool, begun: bool, end: impl FnOnce() -> HandlerResult) -> HandlerResult {
    match (done, begun) {
        (true, _) => end(),
        (false, true) => HandlerResult::Doing,
        (false, false) => HandlerResult::Pending,
    }
}

/// A time as it is written. What is finer than a microsecond would be gone when it is read again.
pub(super) fn stamp(now: Timestamp) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn any_tree(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
