//! The audit log.
//!
//! ```text
//! policy   which requests are audited, and at which level
//! context  the audit context of one request, from stage to stage
//! event    one stage of one request, as a JSON line
//! body     request and response bodies as JSON
//! log      the writer thread and its queue
//! file     the log file and its rotation
//! ```
//!
//! Promises: no request waits for the log or is rejected because of it; events that cannot be written are counted and logged.
//! Nothing that the policy omits is kept, not even in memory. Queued events are written before the server ends.

mod body;
mod context;
mod event;
mod file;
mod log;
mod policy;

pub(crate) use self::{
    context::{AuditAttributes, AuditContext, ObjectRef},
    log::Auditor,
};
pub use self::{
    file::AuditLogFile,
    policy::{AuditPolicy, AuditPolicyContentError, AuditPolicyError},
};

/// What is written down, and where.
#[derive(Debug)]
pub struct AuditConfig {
    /// Which requests, and how much of them.
    pub policy: AuditPolicy,
    /// Where to.
    pub log: AuditLogFile,
}
