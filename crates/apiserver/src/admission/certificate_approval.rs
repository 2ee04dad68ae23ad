//! `CertificateApproval`: approving a CertificateSigningRequest requires `approve` on its signer.

use std::sync::Arc;

use k3_api::{go::quote, status::Status, strategy::Tree};

use super::{AdmissionAttributes, AdmissionPlugin, Operation};
use crate::{authz::Authorizer, cache::WatchCaches};

pub(super) struct CertificateApproval(pub Arc<Authorizer>);

// upstream: plugin/pkg/admission/certificates/approval/admission.go Validate
impl AdmissionPlugin for CertificateApproval {
    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, _: &WatchCaches) -> Result<(), Status> {
        let concerns = attributes.operation == Operation::Update
            && attributes.subresource == "approval"
            && attributes.is_of("certificates.k8s.io", "certificatesigningrequests");
        // The stored signer counts: the request may try to change it.
        let (Some(old), true) = (attributes.old, concerns) else {
            return Ok(());
        };
        let signer = old.at("spec").text("signerName");
        if self.0.allows_signer(&attributes.ctx.user, "approve", signer) {
            return Ok(());
        }
        let signer = quote(signer);
        Err(attributes.forbidden(format!(
            "user not permitted to approve requests with signerName {signer}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::TestCluster, *};

    #[tokio::test]
    async fn requires_approve_permission_for_signer_or_domain() {
        let world = TestCluster::new().await;
        let plugin = CertificateApproval(world.authorizer());
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"},
            "spec": {"signerName": "example.com/a"},
        });
        let approve = || world.update_part(&plugin, "approval", request.clone(), &request);
        assert_eq!(
            approve().unwrap_err(),
            "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to approve requests with \
             signerName \"example.com/a\""
        );
        assert!(
            world
                .update_part(&plugin, "status", request.clone(), &request)
                .is_ok()
        );
        world
            .let_tester(
                &json!([{"verbs": ["approve"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
            "resourceNames": ["example.com/b", "other.com/*"]}]),
            )
            .await;
        assert!(approve().is_err());
        world
            .let_tester(
                &json!([{"verbs": ["approve"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
            "resourceNames": ["example.com/*"]}]),
            )
            .await;
        assert!(approve().is_ok());
    }
}
