//! What all controllers of pods do alike: making pods of templates, many at a time, and choosing those that go.

pub mod deletion_order;
pub(crate) mod event_handler;
pub(crate) mod pod_control;
pub mod pod_from_template;
pub mod slow_start_batch;
