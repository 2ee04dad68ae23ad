//! The kinds of the `certificates.k8s.io` group, one file per kind.

mod cluster_trust_bundle;
mod pod_certificate_request;
#[cfg(test)]
mod samples;
mod signer;
mod signing_request;

pub use self::signing_request::{
    CertificateRequestInfo, SubjectAltNameKind, certificate_not_after, parse_certificate_request,
};
use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "CertificateSigningRequest" => &signing_request::CertificateSigningRequest,
        "ClusterTrustBundle" => &cluster_trust_bundle::ClusterTrustBundle,
        "PodCertificateRequest" => &pod_certificate_request::PodCertificateRequest,
        _ => return None,
    })
}
