//! The built-in controllers: ordinary clients of the API, a file or folder each.

mod calm;
mod context;
mod cronjob;
mod deployment;
pub mod discovery;
mod family;
mod garbage;
mod job;
mod namespace;
mod news;
pub mod objects;
pub mod pods;
mod replicaset;
mod replication;
pub mod resource;
#[cfg(test)]
mod testing;
mod ttl_after_finished;
pub mod writer;
pub mod written;

pub use self::context::{Cluster, Context, Descriptor, Task};

/// All controllers, in the order of their names.
pub static CONTROLLERS: &[Descriptor] = &[
    Descriptor {
        name: "cronjob-controller",
        aliases: &["cronjob"],
        account: "cronjob-controller",
        make: cronjob::make,
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
        name: "job-controller",
        aliases: &["job"],
        account: "job-controller",
        make: job::make,
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
    Descriptor {
        name: "ttl-after-finished-controller",
        aliases: &["ttl-after-finished"],
        account: "ttl-after-finished-controller",
        make: ttl_after_finished::make,
    },
];
