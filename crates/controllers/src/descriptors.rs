//! The list of controllers.

use crate::{
    bootstrap, certificates,
    context::{ControllerContext, Task},
    cronjob, daemonset, deployment, disruption, endpoint_mirroring, endpoint_slice, endpoints,
    ephemeral_volume, garbage, job, local_path, namespace, node_ipam, node_lifecycle, node_ttl, pod_garbage,
    podautoscaler, policy_status, replicaset, replication, resourcequota, role_aggregation, root_ca,
    service_account, service_account_token, service_cidr, statefulset, storage_migration, taint_eviction,
    trust_bundle, ttl_after_finished, volume_binder, volume_expander, volume_protection,
};

/// A controller with the name for `--controllers`.
// upstream: cmd/kube-controller-manager/app/controller_descriptor.go ControllerDescriptor
pub struct ControllerDescriptor {
    /// The name.
    pub name: &'static str,
    /// The alias from older releases.
    pub alias: &'static str,
    /// Its service account, in the namespace `kube-system`.
    pub account: &'static str,
    /// Whether it runs unless it is left out; the others run only if they are named.
    pub is_on: bool,
    /// Builds the controller's tasks.
    pub make: fn(&ControllerContext) -> Vec<Task>,
}

/// Name, other name, service account, and `off` if it runs only if it is named.
macro_rules! controllers {
    ($($name:literal $alias:literal $account:literal $make:path $(, $off:ident)?;)*) => {
        &[$(ControllerDescriptor {
            name: $name,
            alias: $alias,
            account: $account,
            is_on: stringify!($($off)?).is_empty(),
            make: $make,
        }),*]
    };
}

/// All controllers, in the order of their names.
// upstream: cmd/kube-controller-manager/app/controller_descriptor.go NewControllerDescriptors, ControllerAliases, ControllersDisabledByDefault
pub static CONTROLLERS: &[ControllerDescriptor] = controllers! {
    "bootstrap-signer-controller" "bootstrapsigner" "bootstrap-signer" bootstrap::make_signer, off;
    "certificatesigningrequest-approving-controller" "csrapproving" "certificate-controller" certificates::make_approver;
    "certificatesigningrequest-cleaner-controller" "csrcleaner" "certificate-controller" certificates::make_cleaner;
    "certificatesigningrequest-signing-controller" "csrsigning" "certificate-controller" certificates::make_signer;
    "clusterrole-aggregation-controller" "clusterrole-aggregation" "clusterrole-aggregation-controller" role_aggregation::make;
    "cronjob-controller" "cronjob" "cronjob-controller" cronjob::make;
    "daemonset-controller" "daemonset" "daemon-set-controller" daemonset::make;
    "deployment-controller" "deployment" "deployment-controller" deployment::make;
    "disruption-controller" "disruption" "disruption-controller" disruption::make;
    "endpoints-controller" "endpoint" "endpoint-controller" endpoints::make;
    "endpointslice-controller" "endpointslice" "endpointslice-controller" endpoint_slice::make;
    "endpointslice-mirroring-controller" "endpointslicemirroring" "endpointslicemirroring-controller" endpoint_mirroring::make;
    "ephemeral-volume-controller" "ephemeral-volume" "ephemeral-volume-controller" ephemeral_volume::make;
    "garbage-collector-controller" "garbagecollector" "generic-garbage-collector" garbage::make;
    "horizontal-pod-autoscaler-controller" "horizontalpodautoscaling" "horizontal-pod-autoscaler" podautoscaler::make;
    "job-controller" "job" "job-controller" job::make;
    "kube-apiserver-serving-clustertrustbundle-publisher-controller" "" "kube-apiserver-serving-clustertrustbundle-publisher" trust_bundle::make;
    "kubelet-serving-approver" "kubeletservingapprover" "kubelet-serving-approver" certificates::make_serving_approver;
    "local-path-provisioner" "local-path" "persistent-volume-binder" local_path::make;
    "namespace-controller" "namespace" "namespace-controller" namespace::make;
    "node-ipam-controller" "nodeipam" "node-controller" node_ipam::make;
    "node-lifecycle-controller" "nodelifecycle" "node-controller" node_lifecycle::make;
    "persistentvolume-binder-controller" "persistentvolume-binder" "persistent-volume-binder" volume_binder::make;
    "persistentvolume-expander-controller" "persistentvolume-expander" "expand-controller" volume_expander::make;
    "persistentvolume-protection-controller" "pv-protection" "pv-protection-controller" volume_protection::make_for_volumes;
    "persistentvolumeclaim-protection-controller" "pvc-protection" "pvc-protection-controller" volume_protection::make_for_claims;
    "pod-garbage-collector-controller" "podgc" "pod-garbage-collector" pod_garbage::make;
    "replicaset-controller" "replicaset" "replicaset-controller" replicaset::make;
    "replicationcontroller-controller" "replicationcontroller" "replication-controller" replication::make;
    "resourcequota-controller" "resourcequota" "resourcequota-controller" resourcequota::make;
    "root-ca-certificate-publisher-controller" "root-ca-cert-publisher" "root-ca-cert-publisher" root_ca::make;
    "service-cidr-controller" "" "service-cidrs-controller" service_cidr::make;
    "serviceaccount-controller" "serviceaccount" "service-account-controller" service_account::make;
    "serviceaccount-token-controller" "serviceaccount-token" "tokens-controller" service_account_token::make;
    "statefulset-controller" "statefulset" "statefulset-controller" statefulset::make;
    "storage-version-migrator-controller" "storage-version-migrator-controller" "storage-version-migrator-controller" storage_migration::make;
    "taint-eviction-controller" "taint-eviction" "node-controller" taint_eviction::make;
    "token-cleaner-controller" "tokencleaner" "token-cleaner" bootstrap::make_cleaner, off;
    "ttl-after-finished-controller" "ttl-after-finished" "ttl-after-finished-controller" ttl_after_finished::make;
    "ttl-controller" "ttl" "ttl-controller" node_ttl::make;
    "validatingadmissionpolicy-status-controller" "validatingadmissionpolicy-status-controller" "validatingadmissionpolicy-status-controller" policy_status::make;
    "volumeattributesclass-protection-controller" "" "volumeattributesclass-protection-controller" volume_protection::make_for_classes;
};
