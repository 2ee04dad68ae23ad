//! The built-in controllers: ordinary clients of the API, a file or folder each.

mod calm;
mod context;
mod deployment;
pub mod discovery;
mod family;
mod garbage;
mod namespace;
pub mod objects;
pub mod pods;
mod replicaset;
mod replication;
pub mod resource;
pub mod writer;
pub mod written;

pub use self::context::{Cluster, Context, Descriptor, Task};

/// All controllers, in the order of their names.
pub static CONTROLLERS: &[Descriptor] = &[
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
];
