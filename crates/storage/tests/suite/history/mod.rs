//! Checks of recorded histories of clients: pure functions without a store.
//!
//! Every commit has a revision of its own, so the order of commits is known, and judging is a single
//! pass: `linear` asks whether each answer fits some moment between its question and itself, `stream`
//! whether a watch reported exactly the commits it owed.

mod linear;
mod operation;
mod stream;
mod timeline;

pub(crate) use self::{
    linear::check,
    operation::{Operation, OperationResult, Recorder},
    stream::{WatchRecording, check_stream},
    timeline::CommitTimeline,
};
