//! Checks subject and usages of a certificate for each built-in signer.

use k3_api::kinds::{CertificateRequestInfo, SubjectAltNameKind};

/// Signer of client certificates.
pub(super) const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Signer of kubelet client certificates.
pub(super) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signer of kubelet serving certificates.
pub(super) const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// Signer from before signer names existed; clients need not trust it.
pub(super) const LEGACY: &str = "kubernetes.io/legacy-unknown";

/// Prefix of node user names.
pub(super) const NODE_PREFIX: &str = "system:node:";

const SIGNATURE: &str = "digital signature";
const ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

/// Why a certificate is not signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SubjectError {
    #[error("subject organization is not system:nodes")]
    Organization,
    #[error("subject has a uid")]
    Uid,
    #[error("subject common name does not begin with system:node:")]
    CommonName,
    #[error("DNS or IP subjectAltName is required")]
    NameRequired,
    #[error("{0} subjectAltNames are not allowed")]
    Name(&'static str),
    #[error("usages did not match [{}]", .0.join(" "))]
    Usages([&'static str; 3]),
    #[error("invalid usage for client certificate: {0}")]
    ClientUsage(Box<str>),
    #[error("missing required usage for client certificate: client auth")]
    NoClientUsage,
}

/// Checks a certificate request; `None` if the signer is not one of these.
// upstream: pkg/controller/certificates/signer/signer.go getCSRVerificationFuncForSignerName
pub(super) fn check_subject(
    signer: &str,
    subject: &CertificateRequestInfo,
    usages: &[Box<str>],
) -> Option<Result<(), SubjectError>> {
    Some(match signer {
        CLIENT => check_client_usages(usages),
        KUBELET_CLIENT => check_kubelet_client(subject, usages),
        KUBELET_SERVING => check_kubelet_serving(subject, usages),
        LEGACY => Ok(()),
        _ => return None,
    })
}

/// Whether it is a valid kubelet client certificate.
// upstream: pkg/apis/certificates/helpers.go ValidateKubeletClientCSR
pub(super) fn check_kubelet_client(
    subject: &CertificateRequestInfo,
    usages: &[Box<str>],
) -> Result<(), SubjectError> {
    check_nodes_organization(subject)?;
    for (kind, name) in [
        (SubjectAltNameKind::Host, "DNS"),
        (SubjectAltNameKind::Mail, "Email"),
        (SubjectAltNameKind::Address, "IP"),
        (SubjectAltNameKind::Resource, "URI"),
    ] {
        if subject.names.contains(&kind) {
            return Err(SubjectError::Name(name));
        }
    }
    check_node_common_name(subject)?;
    // In upstream's order.
    check_usages(usages, [CLIENT_AUTH, SIGNATURE, ENCIPHERMENT])
}

// upstream: pkg/apis/certificates/helpers.go ValidateKubeletServingCSR
fn check_kubelet_serving(subject: &CertificateRequestInfo, usages: &[Box<str>]) -> Result<(), SubjectError> {
    check_nodes_organization(subject)?;
    let has = |kind| subject.names.contains(&kind);
    if !has(SubjectAltNameKind::Host) && !has(SubjectAltNameKind::Address) {
        return Err(SubjectError::NameRequired);
    }
    if has(SubjectAltNameKind::Mail) {
        return Err(SubjectError::Name("Email"));
    }
    if has(SubjectAltNameKind::Resource) {
        return Err(SubjectError::Name("URI"));
    }
    check_usages(usages, [SIGNATURE, ENCIPHERMENT, SERVER_AUTH])?;
    check_node_common_name(subject)
}

// upstream: pkg/controller/certificates/signer/signer.go isKubeAPIServerClient, validAPIServerClientUsages
fn check_client_usages(usages: &[Box<str>]) -> Result<(), SubjectError> {
    let mut asked = usages.iter().map(|usage| &**usage);
    if let Some(other) = asked
        .clone()
        .find(|usage| ![SIGNATURE, ENCIPHERMENT, CLIENT_AUTH].contains(usage))
    {
        return Err(SubjectError::ClientUsage(other.into()));
    }
    if asked.any(|usage| usage == CLIENT_AUTH) {
        Ok(())
    } else {
        Err(SubjectError::NoClientUsage)
    }
}

fn check_nodes_organization(subject: &CertificateRequestInfo) -> Result<(), SubjectError> {
    match &subject.organizations[..] {
        // Nodes have no UID; a certificate could otherwise set an arbitrary one.
        [one] if one == "system:nodes" && !subject.uids.is_empty() => Err(SubjectError::Uid),
        [one] if one == "system:nodes" => Ok(()),
        _ => Err(SubjectError::Organization),
    }
}

fn check_node_common_name(subject: &CertificateRequestInfo) -> Result<(), SubjectError> {
    if subject.common_name.starts_with(NODE_PREFIX) {
        Ok(())
    } else {
        Err(SubjectError::CommonName)
    }
}

/// Checks the usages; `key encipherment` is optional.
fn check_usages(usages: &[Box<str>], wanted: [&'static str; 3]) -> Result<(), SubjectError> {
    let asked: Vec<&str> = usages.iter().map(|usage| &**usage).collect();
    let mut needed = wanted.iter().filter(|usage| **usage != ENCIPHERMENT);
    if asked.iter().all(|usage| wanted.contains(usage)) && needed.all(|usage| asked.contains(usage)) {
        Ok(())
    } else {
        Err(SubjectError::Usages(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> CertificateRequestInfo {
        CertificateRequestInfo {
            common_name: "system:node:n".to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            ..CertificateRequestInfo::default()
        }
    }

    fn error_text(signer: &str, subject: &CertificateRequestInfo, usages: &[&str]) -> Option<String> {
        let usages: Vec<Box<str>> = usages.iter().map(|usage| (*usage).into()).collect();
        let error = check_subject(signer, subject, &usages).unwrap().err();
        error.map(|error| error.to_string())
    }

    #[test]
    fn restricts_kubelet_client_subjects() {
        let both = [CLIENT_AUTH, SIGNATURE, ENCIPHERMENT];
        let usages = "usages did not match [client auth digital signature key encipherment]";
        assert_eq!(error_text(KUBELET_CLIENT, &node(), &both), None);
        assert_eq!(error_text(KUBELET_CLIENT, &node(), &both[..2]), None);
        assert_eq!(
            error_text(KUBELET_CLIENT, &node(), &both[1..]).as_deref(),
            Some(usages)
        );
        let other = |change: fn(&mut CertificateRequestInfo)| {
            let mut subject = node();
            change(&mut subject);
            error_text(KUBELET_CLIENT, &subject, &both)
        };
        for (change, why) in [
            (
                (|subject| subject.organizations.clear()) as fn(&mut CertificateRequestInfo),
                "subject organization is not system:nodes",
            ),
            (
                |subject| subject.organizations.push("system:masters".to_owned()),
                "subject organization is not system:nodes",
            ),
            (|subject| subject.uids.push("1".to_owned()), "subject has a uid"),
            (
                |subject| subject.names.push(SubjectAltNameKind::Host),
                "DNS subjectAltNames are not allowed",
            ),
            (
                |subject| subject.names.push(SubjectAltNameKind::Mail),
                "Email subjectAltNames are not allowed",
            ),
            (
                |subject| subject.names.push(SubjectAltNameKind::Address),
                "IP subjectAltNames are not allowed",
            ),
            (
                |subject| subject.names.push(SubjectAltNameKind::Resource),
                "URI subjectAltNames are not allowed",
            ),
            (
                |subject| subject.common_name.clear(),
                "subject common name does not begin with system:node:",
            ),
        ] {
            assert_eq!(other(change).as_deref(), Some(why));
        }
    }

    #[test]
    fn requires_names_for_kubelet_serving() {
        let usages = [SIGNATURE, ENCIPHERMENT, SERVER_AUTH];
        let required = "DNS or IP subjectAltName is required";
        assert_eq!(
            error_text(KUBELET_SERVING, &node(), &usages).as_deref(),
            Some(required)
        );
        for name in [SubjectAltNameKind::Host, SubjectAltNameKind::Address] {
            let subject = CertificateRequestInfo {
                names: vec![name],
                ..node()
            };
            assert_eq!(error_text(KUBELET_SERVING, &subject, &usages), None);
            let mismatch = "usages did not match [digital signature key encipherment server auth]";
            assert_eq!(
                error_text(KUBELET_SERVING, &subject, &[CLIENT_AUTH]).as_deref(),
                Some(mismatch)
            );
        }
    }

    #[test]
    fn restricts_client_usages() {
        let anybody = CertificateRequestInfo::default;
        let missing = "missing required usage for client certificate: client auth";
        let invalid = "invalid usage for client certificate: server auth";
        assert_eq!(error_text(CLIENT, &anybody(), &[CLIENT_AUTH]), None);
        assert_eq!(
            error_text(CLIENT, &anybody(), &[SIGNATURE]).as_deref(),
            Some(missing)
        );
        assert_eq!(
            error_text(CLIENT, &anybody(), &[CLIENT_AUTH, SERVER_AUTH]).as_deref(),
            Some(invalid)
        );
        assert_eq!(error_text(LEGACY, &anybody(), &["any"]), None);
        assert_eq!(check_subject("example.com/mine", &anybody(), &[]), None);
    }
}
