//! Changing the status of a ResourceClaim requires permission: `resourceclaims/binding` for the allocation,
//! `resourceclaims/driver` for device status.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use k3_api::{
    field::{Error, Path},
    status::{GroupResource, Status},
    strategy::{Tree, User},
};
use serde_json::Value;

use super::{AdmissionAttributes, AdmissionPlugin, Operation};
use crate::{
    authz::{AuthorizationAttributes, AuthorizationTarget, Authorizer, ResourceAttributes},
    cache::WatchCaches,
};

const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

pub(super) struct ResourceClaimStatusAuthorization(pub Arc<Authorizer>);

// upstream: pkg/registry/resource/resourceclaim/strategy.go ValidateUpdate; upstream authorizes in the strategy of the status subresource
impl AdmissionPlugin for ResourceClaimStatusAuthorization {
    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, _: &WatchCaches) -> Result<(), Status> {
        let concerns = attributes.operation == Operation::Update
            && attributes.subresource == "status"
            && attributes.is_of("resource.k8s.io", "resourceclaims");
        let (Some(old), true) = (attributes.old, concerns) else {
            return Ok(());
        };
        let before = old.at("status");
        let after = attributes.object.at("status");
        // Both ways of changing an object are rights of their own.
        let verb = if attributes.ctx.media.contains("patch") {
            "patch"
        } else {
            "update"
        };
        let at = Path::new("status");
        let mut errors = Vec::new();
        let is_bound_otherwise = ["allocation", "reservedFor"]
            .iter()
            .any(|field| before.at(field) != after.at(field));
        if is_bound_otherwise && let Err(why) = self.require(attributes, verb, "binding", "", "") {
            let needs = "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\"";
            let why = format!("{needs}, verb=\"{verb}\" permission: {}", why.message);
            errors.push(Error::forbidden(&at.child("allocation"), why));
        }
        if after.has("allocation") {
            let verbs = verbs(&attributes.ctx.user, after.at("allocation"), verb);
            for driver in changed_drivers(before, after) {
                let mut tried = verbs
                    .iter()
                    .map(|verb| self.require(attributes, verb, "driver", attributes.namespace, driver));
                let Some(Err(why)) = tried.next() else {
                    continue;
                };
                if tried.all(|other| other.is_err()) {
                    let needs = "changing status.devices requires resource=\"resourceclaims/driver\"";
                    let why = format!(
                        "{needs}, verb=\"[{}]\" permission: {}",
                        verbs.join(" "),
                        why.message
                    );
                    errors.push(Error::forbidden(&at.child("devices"), why));
                }
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        let kind = &attributes.resource.kind;
        let name = old.at("metadata").text("name");
        Err(Status::invalid(
            GroupResource::new(&kind.group, &kind.kind),
            name,
            &errors,
        ))
    }
}

// --- ResourceClaimStatusAuthorization ---

impl ResourceClaimStatusAuthorization {
    fn require(
        &self,
        attributes: &AdmissionAttributes<'_>,
        verb: &str,
        part: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), Status> {
        let kind = &attributes.resource.kind;
        let object = ResourceAttributes {
            group: &kind.group,
            version: &kind.version,
            resource: &kind.plural,
            subresource: part,
            namespace,
            name,
            ..ResourceAttributes::default()
        };
        let action = AuthorizationAttributes {
            user: &attributes.ctx.user,
            verb,
            what: AuthorizationTarget::Resource(object),
        };
        self.0.require(&action).map(drop)
    }
}

/// The verbs of which one lets a user speak for a driver: a service account on the node of the claim has two.
fn verbs(user: &User, allocation: &Value, verb: &str) -> Vec<String> {
    let node = node_of(allocation);
    let own = user.extra.iter().find(|(key, _)| key == NODE_NAME);
    let is_there = !node.is_empty()
        && user.name.starts_with("system:serviceaccount:")
        && own.is_some_and(|(_, values)| *values == [node]);
    let mut verbs = Vec::new();
    if is_there {
        verbs.push(format!("associated-node:{verb}"));
    }
    verbs.push(format!("arbitrary-node:{verb}"));
    verbs
}

/// The one node that an allocation is for; empty if there may be others.
fn node_of(allocation: &Value) -> &str {
    let [term] = allocation.at("nodeSelector").items("nodeSelectorTerms") else {
        return "";
    };
    let ([], [field]) = (term.items("matchExpressions"), term.items("matchFields")) else {
        return "";
    };
    match field.items("values") {
        [node] if field.text("key") == "metadata.name" && field.text("operator") == "In" => {
            node.as_str().unwrap_or_default()
        }
        _ => "",
    }
}

/// The drivers of devices whose status was added, changed or removed.
fn changed_drivers<'v>(before: &'v Value, after: &'v Value) -> BTreeSet<&'v str> {
    let before = before.items("devices");
    let after = after.items("devices");
    let missing = |from: &'v [Value], other: &'v [Value]| {
        let other: HashSet<&Value> = other.iter().collect();
        from.iter()
            .filter(move |device| !other.contains(device))
            .map(|device| device.text("driver"))
    };
    missing(after, before).chain(missing(before, after)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::TestCluster, *};

    fn claim(allocated: bool, device: &Value) -> Value {
        let mut claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "a"}, "status": {"devices": device}});
        if allocated {
            claim["status"]["allocation"] = json!({"devices": {}});
        }
        claim
    }

    #[tokio::test]
    async fn allocation_change_requires_binding_permission() {
        let world = TestCluster::new().await;
        let plugin = ResourceClaimStatusAuthorization(world.authorizer());
        let new = claim(true, &json!([]));
        let old = claim(false, &json!([]));
        let refused = world
            .update_part(&plugin, "status", new.clone(), &old)
            .unwrap_err();
        assert_eq!(
            refused,
            "ResourceClaim.resource.k8s.io \"c\" is invalid: status.allocation: Forbidden: changing status.allocation or \
             status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"update\" permission: \
             resourceclaims.resource.k8s.io is forbidden: User \"tester\" cannot update resource \"resourceclaims/binding\" in \
             API group \"resource.k8s.io\" at the cluster scope"
        );
        assert!(world.update_part(&plugin, "status", new.clone(), &new).is_ok());
        world
            .let_tester(
                &json!([{"verbs": ["update"], "apiGroups": ["*"], "resources": ["resourceclaims/binding"]}]),
            )
            .await;
        assert!(world.update_part(&plugin, "status", new, &old).is_ok());
    }

    #[tokio::test]
    async fn device_status_change_requires_driver_permission() {
        let world = TestCluster::new().await;
        let plugin = ResourceClaimStatusAuthorization(world.authorizer());
        let old = claim(true, &json!([]));
        let new = claim(
            true,
            &json!([{"driver": "d.example.com", "pool": "p", "device": "x"}]),
        );
        let refused = world
            .update_part(&plugin, "status", new.clone(), &old)
            .unwrap_err();
        let why = "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[arbitrary-node:update]\" permission: \
                   resourceclaims.resource.k8s.io \"d.example.com\" is forbidden: User \"tester\" cannot arbitrary-node:update \
                   resource \"resourceclaims/driver\" in API group \"resource.k8s.io\" in the namespace \"a\"";
        assert!(refused.ends_with(why), "{refused}");
        world
            .let_tester(&json!([{"verbs": ["arbitrary-node:update"], "apiGroups": ["*"], "resources": ["resourceclaims/driver"],
                "resourceNames": ["d.example.com"]}]))
            .await;
        assert!(world.update_part(&plugin, "status", new.clone(), &old).is_ok());
        assert!(world.update_part(&plugin, "status", old, &new).is_ok());
    }
}
