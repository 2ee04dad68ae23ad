//! A migration from one Redis instance to another, as a state machine.
//!
//! `Init` looks up both instances; `Migrate` stands for the transfer of data and only waits; the terminal phases are `Success`,
//! `Fail` and `MigrateFail`. The state machine is in `machine.rs`.

mod api;
mod machine;
mod setup;

pub use self::{
    api::{InstanceStatus, RedisMigration, RedisMigrationSpec, RedisMigrationStatus},
    machine::{Settings, machine},
    setup::RedisMigrationSetup,
};
