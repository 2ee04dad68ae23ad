//! Events that tell users what controllers do.
//!
//! Promises:
//! - Telling never waits: an event goes into a queue of bounded length, and is counted and dropped when that is full.
//! - What is told again is counted: the event that is there gets a higher count (`kubectl describe` shows `x5 over 2m`).
//!   Many texts with one reason about one object become one event, `(combined from similar events): ...`.
//! - One source tells 25 events about an object at once and then one every five minutes, as upstream's recorders do.
//! - A server that does not answer is asked again; one that refuses is not. When the program stops, what is queued is
//!   written as long as the deadline allows.
//!
//! ```no_run
//! # async fn example(client: kube::Client, object: k8s_openapi::api::core::v1::ObjectReference) {
//! use kubecontroller::{events::{EventBroadcaster, EventType}, manager::{Runnable, Stop}};
//!
//! let events = EventBroadcaster::new(client);
//! let recorder = events.recorder("my-operator");
//! recorder.event(&object, EventType::Normal, "Migrated", "Migrate", "moved 12 keys");
//! // A manager does this for its recorders:
//! let stop = Stop::new();
//! events.run(stop).await.unwrap();
//! # }
//! ```

mod correlator;
mod recent;
mod record;
mod recorder;
#[cfg(test)]
mod tests;
mod writer;

pub use self::{
    record::{EventApi, EventType},
    recorder::{EventBroadcaster, EventRecorder},
};
