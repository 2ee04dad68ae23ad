//! The built-in controllers: ordinary clients of the API, a file or folder each.

mod calm;
mod context;
mod deployment;
pub mod discovery;
mod family;
mod garbage;
mod namespace;
pub mod objects;
mod pod_garbage;
pub mod pods;
mod replicaset;
mod replication;
pub mod resource;
mod role_aggregation;
mod root_ca;
mod service_account;
#[cfg(test)]
mod testing;
pub mod writer;
pub mod written;

pub use self::context::{Cluster, Context, Descriptor, Task};

/// All controllers, in the order of their names.
pub static CONTROLLERS: &[Descriptor] = &[
    Descriptor {
        name: "clusterrole-aggregation-controller",
        aliases: &["clusterrole-aggregation"],
        account: "clusterrole-aggregation-controller",
        make: role_aggregation::make,
    },
    Descriptor {
        name: "deployment-controller",
        aliases: &["deployment"],
        account: "deployment-controller",
        make: deployment::make,
    },
    Descriptor {
        name: "garbage-collector-controller",
        aliases: &["garbagecollector"],
        account: "generic-garbage-collector",
        make: garbage::make,
    },
    Descriptor {
        name: "namespace-controller",
        aliases: &["namespace"],
        account: "namespace-controller",
        make: namespace::make,
    },
    Descriptor {
        name: "pod-garbage-collector-controller",
        aliases: &["podgc"],
        account: "pod-garbage-collector",
        make: pod_garbage::make,
    },
    Descriptor {
        name: "replicaset-controller",
        aliases: &["replicaset"],
        account: "replicaset-controller",
        make: replicaset::make,
    },
    Descriptor {
        name: "replicationcontroller-controller",
        aliases: &["replicationcontroller"],
        account: "replication-controller",
        make: replication::make,
    },
    Descriptor {
        name: "root-ca-certificate-publisher-controller",
        aliases: &["root-ca-cert-publisher"],
        account: "root-ca-cert-publisher",
        make: root_ca::make,
    },
    Descriptor {
        name: "serviceaccount-controller",
        aliases: &["serviceaccount"],
        account: "service-account-controller",
        make: service_account::make,
    },
];
