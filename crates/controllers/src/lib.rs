//! The built-in controllers: ordinary clients of the API, one file or directory each.

mod bootstrap;
mod certificates;
mod cidr;
mod context;
mod controller_ref_manager;
mod cronjob;
mod daemonset;
mod deployment;
mod descriptors;
pub mod discovery;
mod disruption;
mod endpoint_mirroring;
mod endpoint_slice;
mod endpoints;
mod ephemeral_volume;
mod event_message;
mod garbage;
mod history;
mod job;
mod local_path;
mod namespace;
mod node_ipam;
mod node_lifecycle;
mod node_ttl;
pub mod objects;
pub mod patch_values;
mod pod_garbage;
mod podautoscaler;
pub mod pods;
mod policy_status;
mod replicaset;
mod replication;
pub mod resource;
mod resourcequota;
mod role_aggregation;
mod root_ca;
mod service_account;
mod service_account_token;
mod service_cidr;
mod services;
mod statefulset;
mod status_patch_role;
mod status_throttle;
mod storage_migration;
mod taint_eviction;
#[cfg(test)]
mod testing;
mod trust_bundle;
mod ttl_after_finished;
mod update;
mod volume_binder;
mod volume_expander;
mod volume_protection;

pub use self::{
    certificates::{
        JOIN_NODE_NAME_KEY, JOIN_USE_LIMIT_KEY, JOIN_USES_KEY, join_approver_roles, serving_approver_roles,
    },
    context::{
        CaBundle, CertificateOrder, CertificateSigner, ClusterConfig, ControllerContext, NodeNetworks,
        ServerIdentity, SignCertificateError, Task, TokenSigner,
    },
    descriptors::{CONTROLLERS, ControllerDescriptor},
    status_patch_role::{OBSOLETE_STATUS_PATCH_ROLE, STATUS_PATCH_ROLES, StatusPatchRole},
};
