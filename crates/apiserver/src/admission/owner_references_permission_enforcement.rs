//! `OwnerReferencesPermissionEnforcement`: setting an owner requires permission to delete the dependent; setting
//! `blockOwnerDeletion` requires permission to set finalizers on the owner.
//!
//! Off by default, as upstream.

use std::{collections::HashSet, sync::Arc};

use k3_api::{kinds::builtin, status::Status, strategy::Tree};
use serde_json::Value;

use super::{AdmissionAttributes, AdmissionPlugin, Operation};
use crate::{
    authz::{AuthorizationAttributes, AuthorizationTarget, Authorizer, Decision, ResourceAttributes},
    cache::WatchCaches,
};

pub(super) struct OwnerReferencesPermissionEnforcement(pub Arc<Authorizer>);

// upstream: plugin/pkg/admission/gc/gc_admission.go Validate, newBlockingOwnerDeletionRefs
impl AdmissionPlugin for OwnerReferencesPermissionEnforcement {
    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, _: &WatchCaches) -> Result<(), Status> {
        let is_pod_status = attributes.is_of("", "pods") && attributes.subresource == "status";
        if attributes.operation == Operation::Delete || is_pod_status {
            return Ok(());
        }
        let new = attributes.object.at("metadata").items("ownerReferences");
        let old = attributes
            .old
            .map_or(&[][..], |old| old.at("metadata").items("ownerReferences"));
        if new == old {
            return Ok(());
        }
        let kind = &attributes.resource.kind;
        if attributes.operation == Operation::Update {
            let dependent = ResourceAttributes {
                group: &kind.group,
                version: &kind.version,
                resource: &kind.plural,
                subresource: attributes.subresource,
                namespace: attributes.namespace,
                name: attributes.object.at("metadata").text("name"),
                ..ResourceAttributes::default()
            };
            if let Decision::NoOpinion(reason) = self.decide(attributes, "delete", dependent) {
                return Err(attributes.forbidden(format!(
                    "cannot set an ownerRef on a resource you can't delete: {reason}, <nil>"
                )));
            }
        }
        let blocks = |owner: &Value| owner.flag("blockOwnerDeletion");
        let blocked: HashSet<_> = old
            .iter()
            .filter(|owner| blocks(owner))
            .map(|owner| owner.text("uid"))
            .collect();
        let newly: Vec<_> = new
            .iter()
            .filter(|owner| blocks(owner) && !blocked.contains(owner.text("uid")))
            .collect();
        if newly.is_empty() {
            return Ok(());
        }
        let anything = ResourceAttributes {
            group: "*",
            version: "*",
            resource: "*",
            subresource: "finalizers",
            name: "*",
            ..ResourceAttributes::default()
        };
        if matches!(self.decide(attributes, "update", anything), Decision::Allow(_)) {
            return Ok(());
        }
        newly
            .into_iter()
            .try_for_each(|owner| self.check_owner(attributes, owner))
    }
}

// --- OwnerReferencesPermissionEnforcement ---

impl OwnerReferencesPermissionEnforcement {
    fn check_owner(&self, attributes: &AdmissionAttributes<'_>, owner: &Value) -> Result<(), Status> {
        let version = owner.text("apiVersion");
        let kind = owner.text("kind");
        let (group, number) = version.split_once('/').unwrap_or(("", version));
        let Some(found) = builtin().kind(group, number, kind) else {
            let unknown = format!("no matches for kind \"{kind}\" in version \"{version}\"");
            return Err(attributes.forbidden(format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} Kind \
                 {kind}: {unknown}"
            )));
        };
        let object = ResourceAttributes {
            group: &found.group,
            version: &found.version,
            resource: &found.plural,
            subresource: "finalizers",
            // An owner within a namespace is in that of its dependent.
            namespace: if found.is_namespaced() {
                attributes.namespace
            } else {
                ""
            },
            name: owner.text("name"),
            ..ResourceAttributes::default()
        };
        match self.decide(attributes, "update", object) {
            Decision::Allow(_) => Ok(()),
            Decision::NoOpinion(reason) => Err(attributes.forbidden(format!(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: {reason}, \
                 <nil>"
            ))),
        }
    }

    /// Whether who asks may do something.
    fn decide(
        &self,
        attributes: &AdmissionAttributes<'_>,
        verb: &str,
        object: ResourceAttributes<'_>,
    ) -> Decision {
        let action = AuthorizationAttributes {
            user: &attributes.ctx.user,
            verb,
            what: AuthorizationTarget::Resource(object),
        };
        self.0.decide(&action)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::TestCluster, *};

    fn map(owners: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "m", "namespace": "a", "ownerReferences": owners}})
    }

    fn owner(blocks: bool) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "1", "blockOwnerDeletion": blocks})
    }

    #[tokio::test]
    async fn setting_owner_requires_delete_permission() {
        let world = TestCluster::new().await;
        let plugin = OwnerReferencesPermissionEnforcement(world.authorizer());
        let bare = map(&json!([]));
        let owned = map(&json!([owner(false)]));
        assert!(world.admit(&plugin, owned.clone()).is_ok());
        assert!(world.update(&plugin, owned.clone(), &owned).is_ok());
        assert_eq!(
            world.update(&plugin, owned.clone(), &bare).unwrap_err(),
            "configmaps \"m\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>"
        );
        world
            .let_tester(&json!([{"verbs": ["delete"], "apiGroups": [""], "resources": ["configmaps"]}]))
            .await;
        assert!(world.update(&plugin, owned, &bare).is_ok());
    }

    #[tokio::test]
    async fn block_owner_deletion_requires_finalizers_permission() {
        let world = TestCluster::new().await;
        let plugin = OwnerReferencesPermissionEnforcement(world.authorizer());
        let held = map(&json!([owner(true)]));
        assert_eq!(
            world.admit(&plugin, held.clone()).unwrap_err(),
            "configmaps \"m\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't \
             set finalizers on: , <nil>"
        );
        world
            .let_tester(
                &json!([{"verbs": ["update"], "apiGroups": ["apps"], "resources": ["deployments/finalizers"],
            "resourceNames": ["d"]}]),
            )
            .await;
        assert!(world.admit(&plugin, held).is_ok());
        let mut unknown = owner(true);
        unknown["kind"] = json!("Nothing");
        let refused = world.admit(&plugin, map(&json!([unknown]))).unwrap_err();
        assert!(
            refused.contains("cannot find RESTMapping for APIVersion apps/v1 Kind Nothing"),
            "{refused}"
        );
    }
}
