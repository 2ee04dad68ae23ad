//! The kinds of the `certificates.k8s.io` group, a file each, and what they read: PEM, DER, X.509.

mod cluster_trust_bundle;
mod der;
mod pem;
mod pod_certificate_request;
#[cfg(test)]
mod samples;
mod signature;
mod signer;
mod signing_request;
mod x509;

pub use self::signing_request::{
    Requested, RequestedName, certificate_end, requested, requested_common_name, requested_organizations,
};
use crate::rules::Rules;

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "CertificateSigningRequest" => &signing_request::SigningRequest,
        "ClusterTrustBundle" => &cluster_trust_bundle::ClusterTrustBundle,
        "PodCertificateRequest" => &pod_certificate_request::PodCertificateRequest,
        _ => return None,
    })
}
