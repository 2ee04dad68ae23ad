//! `CertificateSubjectRestriction`: rejects requests for client certificates with the group `system:masters`.

use k3_api::{kinds::parse_certificate_request, status::Status, strategy::Tree};

use super::{AdmissionAttributes, AdmissionPlugin};
use crate::cache::WatchCaches;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

pub(super) struct CertificateSubjectRestriction;

// upstream: plugin/pkg/admission/certificates/subjectrestriction/admission.go Validate
impl AdmissionPlugin for CertificateSubjectRestriction {
    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, _: &WatchCaches) -> Result<(), Status> {
        let spec = attributes.object.at("spec");
        if !attributes.creates("certificates.k8s.io", "certificatesigningrequests")
            || spec.text("signerName") != SIGNER
        {
            return Ok(());
        }
        let request = parse_certificate_request(spec.text("request"))
            .map_err(|error| attributes.forbidden(format!("failed to parse CSR: {error}")))?;
        if request
            .identity()
            .organizations
            .iter()
            .any(|group| group == "system:masters")
        {
            return Err(attributes.forbidden(format!(
                "use of {SIGNER} signer with system:masters group is not allowed"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};
    use serde_json::{Value, json};

    use super::{super::testing::TestCluster, *};

    fn request(signer: &str, groups: &[&str]) -> Value {
        let mut params = CertificateParams::default();
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        let key = KeyPair::generate().unwrap();
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"},
            "spec": {"signerName": signer, "request": k3_api::base64::encode(pem.as_bytes())},
        })
    }

    #[tokio::test]
    async fn rejects_system_masters_group() {
        let world = TestCluster::new().await;
        let made = |signer, groups| world.admit(&CertificateSubjectRestriction, request(signer, groups));
        assert_eq!(
            made(SIGNER, &["system:masters"]).unwrap_err(),
            "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: use of kubernetes.io/kube-apiserver-client signer \
             with system:masters group is not allowed"
        );
        assert!(made(SIGNER, &["devs"]).is_ok());
        assert!(made("example.com/a", &["system:masters"]).is_ok());
    }
}
