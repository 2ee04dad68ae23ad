//! Which controllers there are.

use crate::{
    context::{Context, Task},
    cronjob, daemonset, deployment, disruption, endpoint_mirroring, endpoint_slice, endpoints, garbage, job,
    namespace, node_ipam, node_lifecycle, pod_garbage, podautoscaler, policy_status, replicaset, replication,
    resourcequota, role_aggregation, root_ca, service_account, service_cidr, statefulset, storage_migration,
    taint_eviction, ttl_after_finished,
};

/// A controller, by the name under which it can be turned on and off.
pub struct Descriptor {
    /// The name.
    pub name: &'static str,
    /// Another name for it, by which older programs know it.
    pub alias: &'static str,
    /// Its service account, in the namespace `kube-system`.
    pub account: &'static str,
    /// Makes what runs.
    pub make: fn(&Context) -> Vec<Task>,
}

/// Name, other name, service account.
macro_rules! controllers {
    ($($name:literal $alias:literal $account:literal $make:path;)*) => {
        &[$(Descriptor { name: $name, alias: $alias, account: $account, make: $make }),*]
    };
}

/// All controllers, in the order of their names.
pub static CONTROLLERS: &[Descriptor] = controllers! {
    "clusterrole-aggregation-controller" "clusterrole-aggregation" "clusterrole-aggregation-controller" role_aggregation::make;
    "cronjob-controller" "cronjob" "cronjob-controller" cronjob::make;
    "daemonset-controller" "daemonset" "daemon-set-controller" daemonset::make;
    "deployment-controller" "deployment" "deployment-controller" deployment::make;
    "disruption-controller" "disruption" "disruption-controller" disruption::make;
    "endpoints-controller" "endpoint" "endpoint-controller" endpoints::make;
    "endpointslice-controller" "endpointslice" "endpointslice-controller" endpoint_slice::make;
    "endpointslice-mirroring-controller" "endpointslicemirroring" "endpointslicemirroring-controller" endpoint_mirroring::make;
    "garbage-collector-controller" "garbagecollector" "generic-garbage-collector" garbage::make;
    "horizontal-pod-autoscaler-controller" "horizontalpodautoscaling" "horizontal-pod-autoscaler" podautoscaler::make;
    "job-controller" "job" "job-controller" job::make;
    "namespace-controller" "namespace" "namespace-controller" namespace::make;
    "node-ipam-controller" "nodeipam" "node-controller" node_ipam::make;
    "node-lifecycle-controller" "nodelifecycle" "node-controller" node_lifecycle::make;
    "pod-garbage-collector-controller" "podgc" "pod-garbage-collector" pod_garbage::make;
    "replicaset-controller" "replicaset" "replicaset-controller" replicaset::make;
    "replicationcontroller-controller" "replicationcontroller" "replication-controller" replication::make;
    "resourcequota-controller" "resourcequota" "resourcequota-controller" resourcequota::make;
    "root-ca-certificate-publisher-controller" "root-ca-cert-publisher" "root-ca-cert-publisher" root_ca::make;
    "service-cidr-controller" "" "service-cidrs-controller" service_cidr::make;
    "serviceaccount-controller" "serviceaccount" "service-account-controller" service_account::make;
    "statefulset-controller" "statefulset" "statefulset-controller" statefulset::make;
    "storage-version-migrator-controller" "storage-version-migrator-controller" "storage-version-migrator-controller" storage_migration::make;
    "taint-eviction-controller" "taint-eviction" "node-controller" taint_eviction::make;
    "ttl-after-finished-controller" "ttl-after-finished" "ttl-after-finished-controller" ttl_after_finished::make;
    "validatingadmissionpolicy-status-controller" "validatingadmissionpolicy-status-controller" "validatingadmissionpolicy-status-controller" policy_status::make;
};
