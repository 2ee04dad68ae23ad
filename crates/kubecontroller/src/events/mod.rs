//! Event recording: Kubernetes Events about the objects that controllers handle.
//!
//! Guarantees:
//! - Recording never blocks: events are queued, and dropped and counted when the queue is full.
//! - Repetitions increase the count of the existing event (`kubectl describe` shows `x5 over 2m`). Many different notes with
//!   one reason about one object are combined into one event, `(combined from similar events): ...`.
//! - Each source can record 25 events about an object at once and then one every five minutes, like client-go's recorders.
//! - Writes are retried while the API server does not respond, but not when it rejects them. When the program stops, queued
//!   events are written until the deadline.
//!
//! ```no_run
//! # async fn example(client: kube::Client, object: k8s_openapi::api::core::v1::ObjectReference) {
//! use kubecontroller::{events::{EventBroadcaster, EventType}, manager::{Runnable, Stop}};
//!
//! let events = EventBroadcaster::new(client);
//! let recorder = events.recorder("my-operator");
//! recorder.event(&object, EventType::Normal, "Migrated", "Migrate", "migrated 12 keys");
//! // A manager runs the broadcaster of its recorders.
//! let stop = Stop::new();
//! events.run(stop).await.unwrap();
//! # }
//! ```

mod correlator;
mod lru_cache;
mod record;
mod recorder;
#[cfg(test)]
mod tests;
mod writer;

pub use self::{
    record::{EventApi, EventType},
    recorder::{EventBroadcaster, EventRecorder},
};
