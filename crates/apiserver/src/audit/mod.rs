//! The audit log: who did what, when, and what came of it.
//!
//! ```text
//! policy   which requests are written down, and how much of them: the file that says so
//! record   one request, from stage to stage
//! event    one stage of one request, as the line that is written
//! body     what was sent and answered, as JSON
//! log      the thread that writes, and the queue to it
//! file     the file, and what becomes of it when it is long or old
//! ```
//!
//! Promises: no request waits for the log, and none is refused because of it; what cannot be written is counted and told. What
//! the policy does not ask for is not kept, not even in memory. What was queued is written before the server ends.

mod body;
mod event;
mod file;
mod log;
mod policy;
mod record;

pub use self::{
    file::AuditLogFile,
    policy::{AuditPolicy, AuditPolicyError},
};
pub(crate) use self::{
    log::Auditor,
    record::{AuditAttributes, AuditContext, ObjectRef},
};

/// What is written down, and where.
#[derive(Debug)]
pub struct AuditConfig {
    /// Which requests, and how much of them.
    pub policy: AuditPolicy,
    /// Where to.
    pub log: AuditLogFile,
}
