//! `CertificateSigning`: writing the certificate or a condition of a CertificateSigningRequest requires `sign` on its signer.

use std::sync::Arc;

use k3_api::{go::quote, status::Status, strategy::Tree};

use super::{AdmissionAttributes, AdmissionPlugin, Operation};
use crate::{authz::Authorizer, cache::WatchCaches};

pub(super) struct CertificateSigning(pub Arc<Authorizer>);

// upstream: plugin/pkg/admission/certificates/signing/admission.go Validate
impl AdmissionPlugin for CertificateSigning {
    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, _: &WatchCaches) -> Result<(), Status> {
        let concerns = attributes.operation == Operation::Update
            && attributes.subresource == "status"
            && attributes.is_of("certificates.k8s.io", "certificatesigningrequests");
        let (Some(old), true) = (attributes.old, concerns) else {
            return Ok(());
        };
        let before = old.at("status");
        let after = attributes.object.at("status");
        let changes = before.text("certificate") != after.text("certificate")
            || before.items("conditions") != after.items("conditions");
        let signer = old.at("spec").text("signerName");
        if !changes || self.0.allows_signer(&attributes.ctx.user, "sign", signer) {
            return Ok(());
        }
        let signer = quote(signer);
        Err(attributes.forbidden(format!(
            "user not permitted to sign requests with signerName {signer}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::TestCluster, *};

    #[tokio::test]
    async fn requires_sign_permission_to_change_certificate_or_conditions() {
        let world = TestCluster::new().await;
        let plugin = CertificateSigning(world.authorizer());
        let request = |status: serde_json::Value| {
            json!({
                "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"},
                "spec": {"signerName": "example.com/a"}, "status": status,
            })
        };
        let bare = request(json!({}));
        let update = |part: &str, new| world.update_part(&plugin, part, new, &bare);
        for signed in [
            json!({"certificate": "eA=="}),
            json!({"conditions": [{"type": "Failed"}]}),
        ] {
            let refused = update("status", request(signed.clone())).unwrap_err();
            let why = "user not permitted to sign requests with signerName \"example.com/a\"";
            assert!(refused.ends_with(why), "{refused}");
            assert!(update("", request(signed)).is_ok());
        }
        assert!(update("status", request(json!({"other": 1}))).is_ok());
        world
            .let_tester(
                &json!([{"verbs": ["sign"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
            "resourceNames": ["example.com/a"]}]),
            )
            .await;
        assert!(update("status", request(json!({"certificate": "eA=="}))).is_ok());
    }
}
