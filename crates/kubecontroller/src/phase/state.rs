//! The state of handlers, which is stored in the status of the object.

use std::collections::BTreeMap;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The state of one handler: the handler of a phase, or one of its children.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HandlerState {
    /// Whether the handler has ended, successfully or not. It does not run again.
    pub done: bool,
    /// When the handler first ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<MicroTime>,
    /// When the handler ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<MicroTime>,
    /// Whether the last run failed.
    #[serde(skip_serializing_if = "is_default")]
    pub failed: bool,
    /// Whether the failure is final: no retry follows.
    #[serde(skip_serializing_if = "is_default")]
    pub fatal: bool,
    /// The warning that the last run returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The error of the last run. The errors of a composite are in its children.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The number of consecutive failed runs. Counted for the handler of a phase, not for its children.
    // `with = "i32"`: API servers warn about the format `uint32`, which OpenAPI does not define.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "i32")]
    pub failures: u32,
    /// The states of the children, by name.
    // The schema of a custom resource cannot be recursive, so it preserves unknown fields below the first level.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "any_tree")]
    pub state: BTreeMap<String, HandlerState>,
    /// The objects that the handler works on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectState>,
}

/// One object that a handler created by [`objects`](super::objects) works on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectState {
    /// The unique id of the object.
    pub id: String,
    /// The display name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Objects of the same group are processed in the same batch.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// An identifier set by the handler, for example the id of a task in another system.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub handle_id: String,
    /// Whether the work on the object has ended, successfully or not.
    pub done: bool,
    /// When the object was first part of a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<MicroTime>,
    /// When the work on the object ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<MicroTime>,
    /// A warning for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The error, if the object failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The progress of a handler, a phase or an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum HandlerResult {
    /// Not started.
    Pending,
    /// Started, not ended.
    Doing,
    /// Finished successfully.
    Succeeded,
    /// Finished successfully, with a warning.
    Warning,
    /// Finished with an error.
    Failed,
}

// --- HandlerState ---

impl HandlerState {
    /// The progress of the handler.
    pub fn result(&self) -> HandlerResult {
        result(self.done, self.start_time.is_some(), || match &self.warning {
            _ if self.failed || self.fatal => HandlerResult::Failed,
            Some(_) => HandlerResult::Warning,
            None => HandlerResult::Succeeded,
        })
    }

    /// When the handler ended; if it has not ended, when it started.
    pub fn timestamp(&self) -> Option<&MicroTime> {
        self.end_time.as_ref().or(self.start_time.as_ref())
    }

    /// Sets the start time, unless it is set.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.start_time.get_or_insert_with(|| stamp(now));
    }

    /// Sets the end time and `done`.
    pub(super) fn end(&mut self, now: Timestamp) {
        self.done = true;
        self.end_time = Some(stamp(now));
    }

    /// Ends the handler with a fatal error.
    pub(super) fn end_badly(&mut self, now: Timestamp, error: String) {
        self.begin(now);
        self.end(now);
        self.failed = true;
        self.fatal = true;
        self.error = Some(error);
    }
}

impl ObjectState {
    /// An object that has not been worked on.
    pub fn new(id: impl Into<String>) -> Self {
        ObjectState {
            id: id.into(),
            ..ObjectState::default()
        }
    }

    /// Sets the display name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the group.
    #[must_use]
    pub fn grouped(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }

    /// Marks the object as done, without error.
    #[must_use]
    pub fn finished(mut self) -> Self {
        self.done = true;
        self.error = None;
        self
    }

    /// Sets a warning.
    #[must_use]
    pub fn warned(mut self, warning: impl Into<String>) -> Self {
        self.warning = Some(warning.into());
        self
    }

    /// Marks the object as done, with an error. Work on the other objects continues; the handler fails when all have ended.
    #[must_use]
    pub fn failed(mut self, error: impl Into<String>) -> Self {
        self.done = true;
        self.error = Some(error.into());
        self
    }

    /// The progress of the object.
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

fn result(done: bool, begun: bool, end: impl FnOnce() -> HandlerResult) -> HandlerResult {
    match (done, begun) {
        (true, _) => end(),
        (false, true) => HandlerResult::Doing,
        (false, false) => HandlerResult::Pending,
    }
}

/// A time as it is serialized, in microseconds: finer digits would make the object differ from its stored form.
pub(super) fn stamp(now: Timestamp) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn any_tree(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
