//! The kinds of the `certificates.k8s.io` group, a file each.

mod cluster_trust_bundle;
mod pod_certificate_request;
#[cfg(test)]
mod samples;
mod signer;
mod signing_request;

pub use self::signing_request::{Requested, RequestedName, certificate_end, read_request};
use crate::strategy::RestStrategy;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "CertificateSigningRequest" => &signing_request::SigningRequest,
        "ClusterTrustBundle" => &cluster_trust_bundle::ClusterTrustBundle,
        "PodCertificateRequest" => &pod_certificate_request::PodCertificateRequest,
        _ => return None,
    })
}
