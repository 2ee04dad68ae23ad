//! The permission to patch statuses.
//!
//! Upstream's controllers keep complete objects, write a status with `update`, and their roles allow no `patch`. Controllers here keep
//! projections: with `update` alone each status would be read before it is written.

use serde_json::{Value, json};

const ROLE: &str = "k3.io:controller-status-patch";

// upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go buildControllerRoles
/// Service account, group and statuses. Each account may `update` these statuses by its upstream role.
const STATUSES: &[(&str, &str, &[&str])] = &[
    (
        "certificate-controller",
        "certificates.k8s.io",
        &["certificatesigningrequests/status"],
    ),
    ("cronjob-controller", "batch", &["cronjobs/status"]),
    ("daemon-set-controller", "apps", &["daemonsets/status"]),
    ("deployment-controller", "apps", &["deployments/status"]),
    (
        "disruption-controller",
        "policy",
        &["poddisruptionbudgets/status"],
    ),
    (
        "horizontal-pod-autoscaler",
        "autoscaling",
        &["horizontalpodautoscalers/status"],
    ),
    ("job-controller", "batch", &["jobs/status"]),
    ("namespace-controller", "", &["namespaces/status"]),
    (
        "persistent-volume-binder",
        "",
        &["persistentvolumeclaims/status", "persistentvolumes/status"],
    ),
    (
        "pvc-protection-controller",
        "",
        &["persistentvolumeclaims/status"],
    ),
    ("replicaset-controller", "apps", &["replicasets/status"]),
    ("replication-controller", "", &["replicationcontrollers/status"]),
    ("statefulset-controller", "apps", &["statefulsets/status"]),
];

/// Role and binding that let controllers patch the statuses that they may update. Upstream's clusters are created without them, so
/// that the process that runs the controllers creates them.
pub fn status_patch_roles() -> [Value; 2] {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let rules: Vec<_> = STATUSES
        .iter()
        .map(
            |(_, group, resources)| json!({"verbs": ["patch"], "apiGroups": [group], "resources": resources}),
        )
        .collect();
    let subjects: Vec<_> = STATUSES
        .iter()
        .map(|(account, ..)| json!({"kind": "ServiceAccount", "namespace": "kube-system", "name": account}))
        .collect();
    let version = format!("{GROUP}/v1");
    [
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": rules}),
        json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": ROLE},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": ROLE}, "subjects": subjects}),
    ]
}
