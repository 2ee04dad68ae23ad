//! A migration from one Redis to another, as a phase machine.
//!
//! `Init` looks up both ends, `Migrate` moves the data, which here takes a while and nothing else; the end is `Success` or
//! `Fail`. The machine is in `machine.rs`; everything else is said by its declaration.

mod api;
mod machine;
mod setup;

pub use self::{
    api::{InstanceStatus, RedisMigration, RedisMigrationSpec, RedisMigrationStatus},
    machine::{Settings, machine},
    setup::RedisMigrationSetup,
};
