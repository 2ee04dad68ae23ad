//! No request for a client certificate of this server makes its owner a master.

use k3_api::{kinds::requested_organizations, rules::Tree, status::Status};

use super::{Attributes, Plugin};
use crate::cache::Caches;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// The plugin.
pub(super) struct CertificateSubjectRestriction;

impl Plugin for CertificateSubjectRestriction {
    fn validate(&self, attributes: &mut Attributes<'_>, _: &Caches) -> Result<(), Status> {
        let spec = attributes.object.at("spec");
        if !attributes.creates("certificates.k8s.io", "certificatesigningrequests")
            || spec.text("signerName") != SIGNER
        {
            return Ok(());
        }
        let groups = requested_organizations(spec.text("request"))
            .map_err(|error| attributes.forbidden(format!("failed to parse CSR: {error}")))?;
        if groups.iter().any(|group| group == "system:masters") {
            return Err(attributes.forbidden(format!(
                "use of {SIGNER} signer with system:masters group is not allowed"
            )));
        }
        Ok(())
    }
}
