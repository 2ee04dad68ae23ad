//! What all controllers of pods do alike: making pods of templates, many at a time, and choosing those that go.

pub mod batch;
pub(crate) mod hands;
pub mod making;
pub mod ranking;
pub(crate) mod wake;
