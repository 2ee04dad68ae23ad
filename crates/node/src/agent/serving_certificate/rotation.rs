//! When a certificate is rotated.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::key_pair::CertificateNames;

/// Names and validity period of the current certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CertificateValidity {
    pub(super) names: CertificateNames,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

/// Rotation deadline: after 70 to 90 percent of the validity period. The jitter spreads the rotations of all nodes.
// upstream: staging/src/k8s.io/client-go/util/certificate/certificate_manager.go nextRotationDeadline
pub(super) fn next_rotation_deadline(validity: &CertificateValidity, jitter: u8) -> Timestamp {
    let lifetime = Duration::try_from(validity.to.duration_since(validity.from)).unwrap_or_default();
    let per_mille = 700 + u32::from(jitter) * 200 / 256;
    validity.from + lifetime / 1000 * per_mille
}

/// Whether a certificate has the current names of the node, and its rotation deadline has not passed.
// upstream: staging/src/k8s.io/client-go/util/certificate/certificate_manager.go certSatisfiesTemplate
pub(super) fn is_current(
    validity: &CertificateValidity,
    names: &CertificateNames,
    now: Timestamp,
    jitter: u8,
) -> bool {
    validity.names == *names && validity.from <= now && now < next_rotation_deadline(validity, jitter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotates_before_expiry_and_on_changed_names() {
        let names = |names: &[&str]| CertificateNames {
            node: "n".to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        let validity = CertificateValidity {
            names: names(&["n", "10.0.0.1"]),
            from: at(0),
            to: at(1000),
        };
        assert!(is_current(&validity, &validity.names, at(699), 0));
        assert!(!is_current(&validity, &validity.names, at(700), 0));
        assert!(is_current(&validity, &validity.names, at(890), 255));
        assert!(!is_current(&validity, &validity.names, at(900), 255));
        assert!(!is_current(&validity, &names(&["n", "10.0.0.2"]), at(1), 0));
        assert!(!is_current(&validity, &validity.names, at(-1), 0));
    }
}
