//! The permission to patch statuses: a role for each service account.
//!
//! Upstream's controllers keep complete objects, write a status with `update`, and their roles allow no `patch`. Controllers here keep
//! projections: with `update` alone each status would be read before it is written.

use serde_json::{Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";
/// A role that an administrator has not excluded is extended by later versions, as the roles of upstream are.
// upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go addDefaultMetadata
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The statuses that a service account may patch. It may `update` them by its upstream role.
#[derive(Debug)]
pub struct StatusPatchRole {
    /// The service account, in the namespace `kube-system`.
    pub account: &'static str,
    /// The group of the resources.
    pub group: &'static str,
    /// The resources.
    pub resources: &'static [&'static str],
}

/// Service account, group and resources.
macro_rules! status_patch_roles {
    ($($account:literal $group:literal $($resource:literal),+;)*) => {
        &[$(StatusPatchRole {
            account: $account,
            group: $group,
            resources: &[$($resource),+],
        }),*]
    };
}

/// The roles of all service accounts that patch statuses.
// upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go buildControllerRoles
pub static STATUS_PATCH_ROLES: &[StatusPatchRole] = status_patch_roles! {
    "certificate-controller" "certificates.k8s.io" "certificatesigningrequests";
    "cronjob-controller" "batch" "cronjobs";
    "daemon-set-controller" "apps" "daemonsets";
    "deployment-controller" "apps" "deployments";
    "disruption-controller" "policy" "poddisruptionbudgets";
    "horizontal-pod-autoscaler" "autoscaling" "horizontalpodautoscalers";
    "job-controller" "batch" "jobs";
    "namespace-controller" "" "namespaces";
    "persistent-volume-binder" "" "persistentvolumeclaims", "persistentvolumes";
    "pvc-protection-controller" "" "persistentvolumeclaims";
    "replicaset-controller" "apps" "replicasets";
    "replication-controller" "" "replicationcontrollers";
    "statefulset-controller" "apps" "statefulsets";
};

/// The name of a role and a binding of earlier versions, which let each account of the table patch the statuses of all of them.
pub const OBSOLETE_STATUS_PATCH_ROLE: &str = "k3.io:controller-status-patch";

// --- StatusPatchRole ---

impl StatusPatchRole {
    /// The ClusterRole.
    pub fn role(&self) -> Value {
        let statuses: Vec<_> = self
            .resources
            .iter()
            .map(|resource| format!("{resource}/status"))
            .collect();
        json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": "ClusterRole",
            "metadata": self.metadata(),
            "rules": [{"verbs": ["patch"], "apiGroups": [self.group], "resources": statuses}],
        })
    }

    /// The ClusterRoleBinding.
    pub fn binding(&self) -> Value {
        json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": "ClusterRoleBinding",
            "metadata": self.metadata(),
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": self.name()},
            "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": self.account}],
        })
    }

    fn metadata(&self) -> Value {
        json!({"name": self.name(), "annotations": {AUTO_UPDATE: "true"}})
    }

    fn name(&self) -> String {
        format!("{OBSOLETE_STATUS_PATCH_ROLE}:{}", self.account)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::CONTROLLERS;

    #[test]
    fn each_account_patches_only_statuses_that_its_upstream_role_updates() {
        let objects: Vec<Value> = k3_api::bootstrap::objects().collect();
        for status_patch_role in STATUS_PATCH_ROLES {
            let name = format!("system:controller:{}", status_patch_role.account);
            let upstream = objects
                .iter()
                .find(|object| object["kind"] == "ClusterRole" && object["metadata"]["name"] == *name)
                .unwrap();
            let has = |list: &Value, text: &str| list.as_array().unwrap().iter().any(|item| item == text);
            for status in status_patch_role.role()["rules"][0]["resources"]
                .as_array()
                .unwrap()
            {
                let is_allowed = upstream["rules"].as_array().unwrap().iter().any(|rule| {
                    has(&rule["verbs"], "update")
                        && has(&rule["apiGroups"], status_patch_role.group)
                        && has(&rule["resources"], status.as_str().unwrap())
                });
                assert!(is_allowed, "{name} may not update {status}");
            }
        }
    }

    #[test]
    fn each_account_has_a_role_of_its_own() {
        let accounts: BTreeSet<_> = STATUS_PATCH_ROLES.iter().map(|role| role.account).collect();
        assert_eq!(accounts.len(), STATUS_PATCH_ROLES.len());
        for status_patch_role in STATUS_PATCH_ROLES {
            let account = status_patch_role.account;
            assert!(
                CONTROLLERS.iter().any(|controller| controller.account == account),
                "{account}"
            );
            let binding = status_patch_role.binding();
            assert_eq!(
                binding["subjects"],
                json!([{"kind": "ServiceAccount", "namespace": "kube-system", "name": account}])
            );
            assert_eq!(
                binding["roleRef"]["name"],
                status_patch_role.role()["metadata"]["name"]
            );
        }
    }
}
