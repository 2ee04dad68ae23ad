//! Changing the status of a PodCertificateRequest requires `sign` on its signer.

use std::sync::Arc;

use k3_api::{
    field::{Error, Path},
    go::quote,
    status::{GroupResource, Status},
    strategy::Tree,
};

use super::{AdmissionAttributes, AdmissionPlugin, Operation};
use crate::{authz::Authorizer, cache::WatchCaches};

pub(super) struct PodCertificateSigning(pub Arc<Authorizer>);

// upstream: pkg/registry/certificates/podcertificaterequest/strategy.go ValidateUpdate; upstream authorizes in the strategy of the status subresource
impl AdmissionPlugin for PodCertificateSigning {
    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, _: &WatchCaches) -> Result<(), Status> {
        let concerns = attributes.operation == Operation::Update
            && attributes.subresource == "status"
            && attributes.is_of("certificates.k8s.io", "podcertificaterequests");
        let (Some(old), true) = (attributes.old, concerns) else {
            return Ok(());
        };
        let user = &attributes.ctx.user;
        let signer = old.at("spec").text("signerName");
        if old.at("status") == attributes.object.at("status") || self.0.allows_signer(user, "sign", signer) {
            return Ok(());
        }
        let why = format!(
            "User {} is not permitted to \"sign\" for signer {}",
            quote(&user.name),
            quote(signer)
        );
        let kind = &attributes.resource.kind;
        let error = Error::forbidden(&Path::new("spec").child("signerName"), why);
        let name = old.at("metadata").text("name");
        Err(Status::invalid(
            GroupResource::new(&kind.group, &kind.kind),
            name,
            &[error],
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::TestCluster, *};

    #[tokio::test]
    async fn requires_sign_permission_to_change_status() {
        let world = TestCluster::new().await;
        let plugin = PodCertificateSigning(world.authorizer());
        let request = |status: serde_json::Value| {
            json!({
                "apiVersion": "certificates.k8s.io/v1", "kind": "PodCertificateRequest",
                "metadata": {"name": "r", "namespace": "a"}, "spec": {"signerName": "example.com/a"}, "status": status,
            })
        };
        let old = request(json!({}));
        let sign = || world.update_part(&plugin, "status", request(json!({"certificateChain": "x"})), &old);
        assert_eq!(
            sign().unwrap_err(),
            "PodCertificateRequest.certificates.k8s.io \"r\" is invalid: spec.signerName: Forbidden: User \"tester\" is not \
             permitted to \"sign\" for signer \"example.com/a\""
        );
        assert!(world.update_part(&plugin, "status", old.clone(), &old).is_ok());
        world
            .let_tester(
                &json!([{"verbs": ["sign"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"]}]),
            )
            .await;
        assert!(sign().is_ok());
    }
}
