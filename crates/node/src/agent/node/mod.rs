//! The Node object of this machine: registration, status and lease.
//!
//! ```text
//! address          default address of the node      capacity  capacity and allocatable resources
//! conditions       Ready and pressure conditions    status    computes the NodeStatus and its patch
//! status_updater   registers and updates the Node   events    events of the Node
//! lease_controller renews the lease in its own task
//! ```
//!
//! Promises: labels, taints and annotations from other writers are kept. An unchanged status is written every five minutes. A slow
//! API server or runtime does not delay the renewal of the lease.

pub(super) mod address;
mod capacity;
mod conditions;
mod events;
mod lease_controller;
mod status;
mod status_updater;

pub(super) use self::{
    conditions::NodePressures,
    events::NodeEventRecorder,
    lease_controller::NodeLeaseController,
    status_updater::{NodeStatusDependencies, NodeStatusUpdater, node_addresses, node_facts},
};
