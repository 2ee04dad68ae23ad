//! The state of handlers, which is stored in the status of the object.

use std::collections::BTreeMap;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The state of one handler: the handler of a phase, or one of its children.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HandlerState {
    // With `failed` and `fatal` the stored form of `Completion`; the comment for users is part of the schema.
    /// Whether the handler has ended, successfully or not. It does not run again.
    done: bool,
    /// When the handler first ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<MicroTime>,
    /// When the handler ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<MicroTime>,
    /// Whether the last run failed.
    #[serde(skip_serializing_if = "is_default")]
    failed: bool,
    /// Whether the failure is final: no retry follows.
    #[serde(skip_serializing_if = "is_default")]
    fatal: bool,
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

/// How far a handler is from its end.
///
/// It is stored as the fields `done`, `failed` and `fatal`. The machine writes each variant in one way; what people and other
/// programs may have written is read as follows, and is written back unchanged until the handler runs again.
///
/// | `done` | `failed` | `fatal` | |
/// | --- | --- | --- | --- |
/// | no | no | no | `Unfinished` |
/// | no | yes | no | `Retrying` |
/// | no | | yes | `Retrying`: a failure is final only when the handler has ended |
/// | yes | no | no | `Succeeded` |
/// | yes | yes | no | `Retrying`: the failure is not final, so the handler runs again |
/// | yes | | yes | `Failed` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The handler has not started, or has more to do.
    Unfinished,
    /// The last run failed. Another one follows.
    Retrying,
    /// The handler has completed successfully.
    Succeeded,
    /// The handler failed, and does not run again.
    Failed,
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
        match (self.completion(), &self.warning) {
            (Completion::Failed, _) => HandlerResult::Failed,
            (Completion::Succeeded, Some(_)) => HandlerResult::Warning,
            (Completion::Succeeded, None) => HandlerResult::Succeeded,
            (Completion::Unfinished | Completion::Retrying, _) => unended(self.start_time.as_ref()),
        }
    }

    /// How far the handler is from its end.
    pub fn completion(&self) -> Completion {
        match (self.done, self.failed, self.fatal) {
            (true, _, true) => Completion::Failed,
            (true, false, false) => Completion::Succeeded,
            (false, false, false) => Completion::Unfinished,
            (_, true, false) | (false, _, true) => Completion::Retrying,
        }
    }

    /// When the handler ended; if it has not ended, when it started.
    pub fn timestamp(&self) -> Option<&MicroTime> {
        self.end_time.as_ref().or(self.start_time.as_ref())
    }

    /// The state of a handler that has not started, with these children.
    pub(super) fn with_children(children: impl Iterator<Item = (String, HandlerState)>) -> Self {
        HandlerState {
            state: children.collect(),
            ..HandlerState::default()
        }
    }

    /// Sets the start time, unless it is set.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.start_time.get_or_insert_with(|| stamp(now));
    }

    /// Sets the completion, and the end time of a handler that ends.
    pub(super) fn complete(&mut self, completion: Completion, now: Timestamp) {
        self.set(completion);
        if completion.is_end() {
            self.end_time = Some(stamp(now));
        }
    }

    /// Ends the handler with a fatal error.
    pub(super) fn end_badly(&mut self, now: Timestamp, error: String) {
        self.begin(now);
        self.complete(Completion::Failed, now);
        self.error = Some(error);
    }

    /// Records an error after which the handler runs again.
    pub(super) fn retry(&mut self, error: String) {
        self.set(Completion::Retrying);
        self.error = Some(error);
    }

    /// Clears the failure, as if the handler had never started. The start time is cleared too: otherwise a phase that timed
    /// out would time out again at once.
    pub(super) fn clear_failure(&mut self) {
        self.set(Completion::Unfinished);
        self.failures = 0;
        self.error = None;
        self.start_time = None;
        self.end_time = None;
    }

    fn set(&mut self, completion: Completion) {
        self.done = completion.is_end();
        self.failed = completion.is_failure();
        self.fatal = completion == Completion::Failed;
    }
}

// --- Completion ---

impl Completion {
    /// Whether the handler has ended, successfully or not. It does not run again.
    pub fn is_end(self) -> bool {
        matches!(self, Completion::Succeeded | Completion::Failed)
    }

    /// Whether the last run failed, finally or not.
    pub fn is_failure(self) -> bool {
        matches!(self, Completion::Retrying | Completion::Failed)
    }
}

// --- ObjectState ---

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
        if !self.done {
            return unended(self.start_time.as_ref());
        }
        match (&self.error, &self.warning) {
            (Some(_), _) => HandlerResult::Failed,
            (None, Some(_)) => HandlerResult::Warning,
            (None, None) => HandlerResult::Succeeded,
        }
    }
}

/// The progress of what has not ended.
fn unended(start_time: Option<&MicroTime>) -> HandlerResult {
    match start_time {
        Some(_) => HandlerResult::Doing,
        None => HandlerResult::Pending,
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Completion::*, *};

    fn read(stored: &Value) -> HandlerState {
        serde_json::from_value(stored.clone()).unwrap()
    }

    /// Every combination that may be stored, with `failed` and `fatal` missing where the machine omits them.
    #[test]
    fn every_stored_combination_is_read_and_written_back_unchanged() {
        for (stored, completion) in [
            (json!({ "done": false }), Unfinished),
            (json!({ "done": false, "fatal": true }), Retrying),
            (json!({ "done": false, "failed": true }), Retrying),
            (json!({ "done": false, "failed": true, "fatal": true }), Retrying),
            (json!({ "done": true }), Succeeded),
            (json!({ "done": true, "fatal": true }), Failed),
            (json!({ "done": true, "failed": true }), Retrying),
            (json!({ "done": true, "failed": true, "fatal": true }), Failed),
        ] {
            let state = read(&stored);
            assert_eq!(state.completion(), completion, "{stored}");
            assert_eq!(serde_json::to_value(&state).unwrap(), stored);
        }
        // A client may omit `done`, or write what the machine omits.
        assert_eq!(read(&json!({})).completion(), Unfinished);
        assert_eq!(read(&json!({ "failed": true })).completion(), Retrying);
        let explicit = json!({ "done": true, "failed": false, "fatal": false });
        assert_eq!(read(&explicit).completion(), Succeeded);
    }

    #[test]
    fn each_completion_has_one_stored_form_whatever_was_stored_before() {
        for bits in 0..8 {
            let before = json!({ "done": bits & 1 > 0, "failed": bits & 2 > 0, "fatal": bits & 4 > 0 });
            for (completion, stored) in [
                (Unfinished, json!({ "done": false })),
                (Retrying, json!({ "done": false, "failed": true })),
                (Succeeded, json!({ "done": true })),
                (Failed, json!({ "done": true, "failed": true, "fatal": true })),
            ] {
                let mut state = read(&before);
                state.set(completion);
                assert_eq!(state.completion(), completion);
                assert_eq!(serde_json::to_value(&state).unwrap(), stored, "after {before}");
            }
        }
    }
}
