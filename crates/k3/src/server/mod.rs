//! A control plane in this process: the store, the API server, controllers, scheduler and node.
//!
//! Settings are plain data, so several control planes can run in one process. It handles no signals and prints only log lines.
//! It stops in order: clients of the API, the API server, the store.

mod address;
mod components;
mod control_plane;
mod encryption;
mod listener;
mod node;
mod renewal;
mod renewal_timer;
mod settings;
mod shared_keys;
mod snapshot;

pub(crate) use self::{
    control_plane::{ControlPlane, open_store},
    encryption::{EncryptionSettings, STATUS_PATH},
    node::{ApiEndpoint, config as node_config, run_renewed},
    settings::{ControlPlaneSettings, ISSUER, KeySource, NodeSettings, SERVICE_RANGE, ServerVisibility},
    shared_keys::{has_private_keys, holds_private_keys},
    snapshot::{INCLUDE_KEYS, SNAPSHOT_PATH},
};
