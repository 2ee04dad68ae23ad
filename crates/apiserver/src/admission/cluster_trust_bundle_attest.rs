//! `ClusterTrustBundleAttest`: writing a ClusterTrustBundle for a signer requires `attest` on the signer.

use std::sync::Arc;

use k3_api::{
    go::quote,
    status::Status,
    strategy::{Tree, TreeMut},
};
use serde_json::Value;

use super::{AdmissionAttributes, AdmissionPlugin, Operation};
use crate::{authz::Authorizer, cache::WatchCaches};

pub(super) struct ClusterTrustBundleAttest(pub Arc<Authorizer>);

// upstream: plugin/pkg/admission/certificates/ctbattest/admission.go Validate
impl AdmissionPlugin for ClusterTrustBundleAttest {
    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, _: &WatchCaches) -> Result<(), Status> {
        let writes = [Operation::Create, Operation::Update].contains(&attributes.operation);
        if !writes || !attributes.is_of("certificates.k8s.io", "clustertrustbundles") {
            return Ok(());
        }
        let signer = attributes.object.at("spec").text("signerName");
        let is_same = attributes.old.is_some_and(|old| is_same(attributes.object, old));
        if signer.is_empty() || is_same || self.0.allows_signer(&attributes.ctx.user, "attest", signer) {
            return Ok(());
        }
        let signer = quote(signer);
        Err(attributes.forbidden(format!("user not permitted to attest for signerName {signer}")))
    }
}

/// Whether nothing differs but what the garbage collector changes.
fn is_same(new: &Value, old: &Value) -> bool {
    let mut new = new.clone();
    for field in ["ownerReferences", "finalizers", "managedFields"] {
        new.ensure_object("metadata").copy_from(field, old.at("metadata"));
    }
    new == *old
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::TestCluster, *};

    #[tokio::test]
    async fn requires_attest_permission_for_signer() {
        let world = TestCluster::new().await;
        let plugin = ClusterTrustBundleAttest(world.authorizer());
        let bundle = |signer: &str| {
            json!({"apiVersion": "certificates.k8s.io/v1", "kind": "ClusterTrustBundle", "metadata": {"name": "b"},
                "spec": {"signerName": signer}})
        };
        let refused = world.admit(&plugin, bundle("example.com/a")).unwrap_err();
        assert!(
            refused.ends_with("user not permitted to attest for signerName \"example.com/a\""),
            "{refused}"
        );
        assert!(world.admit(&plugin, bundle("")).is_ok());
        let old = bundle("example.com/a");
        let mut kept = old.clone();
        kept["metadata"]["finalizers"] = json!(["a/b"]);
        assert!(world.update(&plugin, kept.clone(), &old).is_ok());
        kept["spec"]["trustBundle"] = json!("x");
        assert!(world.update(&plugin, kept, &old).is_err());
        world.let_tester(&json!([{"verbs": ["attest"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"]}])).await;
        assert!(world.admit(&plugin, bundle("example.com/a")).is_ok());
    }
}
