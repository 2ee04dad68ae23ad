//! Authorization for certificate signers: verbs approve, sign and attest.

use k3_api::strategy::User;

use super::{AuthorizationAttributes, AuthorizationTarget, Authorizer, ResourceAttributes};

// --- Authorizer ---

impl Authorizer {
    /// Whether a user may `approve`, `sign` or `attest` for a signer, by its name or by its domain with a `*`.
    // upstream: pkg/certauthorization/certauthorization.go IsAuthorizedForSignerName
    pub(crate) fn allows_signer(&self, user: &User, verb: &str, signer: &str) -> bool {
        let domain = signer.split('/').next().unwrap_or_default();
        let of_domain = format!("{domain}/*");
        [signer, &of_domain].into_iter().any(|name| {
            let signers = ResourceAttributes {
                group: "certificates.k8s.io",
                version: "*",
                resource: "signers",
                name,
                ..ResourceAttributes::default()
            };
            self.allows(&AuthorizationAttributes {
                user,
                verb,
                what: AuthorizationTarget::Resource(signers),
            })
        })
    }
}
