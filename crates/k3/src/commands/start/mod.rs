//! `k3 start`: flags, settings, and running the server.

mod access;
mod audit;
mod encryption;
mod flags;
mod limits;
mod run;
mod settings;
mod storage;

pub(super) use self::{
    access::{AccessFlags, OptionalAdmissionPlugin},
    audit::AuditFlags,
    flags::{ApiFlags, NodeFlags, RuntimeFlags, StartFlags},
    limits::LimitFlags,
    run::run,
    storage::{StorageFlags, cannot_configure},
};
