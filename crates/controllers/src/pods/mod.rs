//! Shared by controllers of pods: creation from templates, slow start batches, deletion order, events.

pub mod deletion_order;
pub(crate) mod event_handler;
pub(crate) mod pod_control;
pub mod pod_from_template;
pub mod slow_start_batch;
