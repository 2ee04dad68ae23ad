//! Who approves a request for a certificate may do so for its signer.

use std::sync::Arc;

use k3_api::{go::quote, status::Status, strategy::Tree};

use super::{Attributes, Operation, Plugin};
use crate::{authz::Authorizer, cache::Caches};

/// The plugin.
pub(super) struct CertificateApproval(pub Arc<Authorizer>);

impl Plugin for CertificateApproval {
    fn validate(&self, attributes: &mut Attributes<'_>, _: &Caches) -> Result<(), Status> {
        let concerns = attributes.operation == Operation::Update
            && attributes.subresource == "approval"
            && attributes.is_of("certificates.k8s.io", "certificatesigningrequests");
        // The signer is the one there is: somebody may try to change it on the way.
        let (Some(old), true) = (attributes.old, concerns) else {
            return Ok(());
        };
        let signer = old.at("spec").text("signerName");
        if self.0.allows_signer(&attributes.ask.user, "approve", signer) {
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

    use super::{super::testing::World, *};

    #[tokio::test]
    async fn only_who_may_approve_for_the_signer_or_its_domain_approves() {
        let world = World::new().await;
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
