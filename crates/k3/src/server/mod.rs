//! A control plane in this process: the store, the API server, and what runs beside it.
//!
//! Promises: what it is told is plain data, of which any number can be in force at once in one process; it hears no signals and
//! prints nothing but to the log; it ends in order, first those who use the API, then the API, then the store.

mod address;
mod encryption;
mod listener;
mod node;
mod components;
mod control_plane;
mod renewal;
mod renewal_timer;
mod settings;
mod shared_keys;
mod snapshot;

pub(crate) use self::{
    encryption::{EncryptionSettings, STATUS_PATH},
    node::{ApiEndpoint, config as node_config, run_renewed},
    control_plane::{ControlPlane, open_store},
    settings::is_shared,
    settings::{Audience, ISSUER, KeySource, NodeSettings, SERVICE_RANGE, Settings},
    shared_keys::{has_private_keys, holds_private_keys},
    snapshot::{INCLUDE_KEYS, SNAPSHOT_PATH},
};
