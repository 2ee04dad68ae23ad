//! What a signer lets a certificate say, and be used for.

use k3_api::kinds::{CertificateRequestInfo, SubjectAltNameKind};

/// For users of the API.
pub(super) const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// For kubelets as users of the API.
pub(super) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// For kubelets as servers.
pub(super) const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// For whatever was signed before there were signers; nobody has to trust it.
pub(super) const LEGACY: &str = "kubernetes.io/legacy-unknown";

/// What the user name of a node begins with.
pub(super) const NODE_PREFIX: &str = "system:node:";

const SIGNATURE: &str = "digital signature";
const ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

/// Why a certificate is not signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
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

/// Whether a signer signs a certificate with this subject for these usages; `None` if it is nobody's here.
pub(super) fn check(
    signer: &str,
    subject: &CertificateRequestInfo,
    usages: &[Box<str>],
) -> Option<Result<(), Refused>> {
    Some(match signer {
        CLIENT => client(usages),
        KUBELET_CLIENT => kubelet_client(subject, usages),
        KUBELET_SERVING => kubelet_serving(subject, usages),
        LEGACY => Ok(()),
        _ => return None,
    })
}

/// Whether it is a certificate with which a kubelet is a user of the API.
pub(super) fn kubelet_client(subject: &CertificateRequestInfo, usages: &[Box<str>]) -> Result<(), Refused> {
    is_nodes(subject)?;
    for (kind, name) in [
        (SubjectAltNameKind::Host, "DNS"),
        (SubjectAltNameKind::Mail, "Email"),
        (SubjectAltNameKind::Address, "IP"),
        (SubjectAltNameKind::Resource, "URI"),
    ] {
        if subject.names.contains(&kind) {
            return Err(Refused::Name(name));
        }
    }
    is_node(subject)?;
    // In the order in which they are told.
    used_for(usages, [CLIENT_AUTH, SIGNATURE, ENCIPHERMENT])
}

fn kubelet_serving(subject: &CertificateRequestInfo, usages: &[Box<str>]) -> Result<(), Refused> {
    is_nodes(subject)?;
    let has = |kind| subject.names.contains(&kind);
    if !has(SubjectAltNameKind::Host) && !has(SubjectAltNameKind::Address) {
        return Err(Refused::NameRequired);
    }
    if has(SubjectAltNameKind::Mail) {
        return Err(Refused::Name("Email"));
    }
    if has(SubjectAltNameKind::Resource) {
        return Err(Refused::Name("URI"));
    }
    used_for(usages, [SIGNATURE, ENCIPHERMENT, SERVER_AUTH])?;
    is_node(subject)
}

fn client(usages: &[Box<str>]) -> Result<(), Refused> {
    let mut asked = usages.iter().map(|usage| &**usage);
    if let Some(other) = asked
        .clone()
        .find(|usage| ![SIGNATURE, ENCIPHERMENT, CLIENT_AUTH].contains(usage))
    {
        return Err(Refused::ClientUsage(other.into()));
    }
    if asked.any(|usage| usage == CLIENT_AUTH) {
        Ok(())
    } else {
        Err(Refused::NoClientUsage)
    }
}

fn is_nodes(subject: &CertificateRequestInfo) -> Result<(), Refused> {
    match &subject.organizations[..] {
        // Nodes have no uid as users; a certificate would give them one of their choice.
        [one] if one == "system:nodes" && !subject.uids.is_empty() => Err(Refused::Uid),
        [one] if one == "system:nodes" => Ok(()),
        _ => Err(Refused::Organization),
    }
}

fn is_node(subject: &CertificateRequestInfo) -> Result<(), Refused> {
    if subject.common_name.starts_with(NODE_PREFIX) {
        Ok(())
    } else {
        Err(Refused::CommonName)
    }
}

/// Whether it is to be used for just these; keys that cannot encipher need not say that they do.
fn used_for(usages: &[Box<str>], wanted: [&'static str; 3]) -> Result<(), Refused> {
    let asked: Vec<&str> = usages.iter().map(|usage| &**usage).collect();
    let mut needed = wanted.iter().filter(|usage| **usage != ENCIPHERMENT);
    if asked.iter().all(|usage| wanted.contains(usage)) && needed.all(|usage| asked.contains(usage)) {
        Ok(())
    } else {
        Err(Refused::Usages(wanted))
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

    fn told(signer: &str, subject: &CertificateRequestInfo, usages: &[&str]) -> Option<String> {
        let usages: Vec<Box<str>> = usages.iter().map(|usage| (*usage).into()).collect();
        let refused = check(signer, subject, &usages).unwrap().err();
        refused.map(|refused| refused.to_string())
    }

    #[test]
    fn kubelets_get_certificates_of_their_node_only() {
        let both = [CLIENT_AUTH, SIGNATURE, ENCIPHERMENT];
        let usages = "usages did not match [client auth digital signature key encipherment]";
        assert_eq!(told(KUBELET_CLIENT, &node(), &both), None);
        assert_eq!(told(KUBELET_CLIENT, &node(), &both[..2]), None);
        assert_eq!(told(KUBELET_CLIENT, &node(), &both[1..]).as_deref(), Some(usages));
        let other = |change: fn(&mut CertificateRequestInfo)| {
            let mut subject = node();
            change(&mut subject);
            told(KUBELET_CLIENT, &subject, &both)
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
    fn kubelets_serve_under_a_name_or_an_address() {
        let usages = [SIGNATURE, ENCIPHERMENT, SERVER_AUTH];
        let required = "DNS or IP subjectAltName is required";
        assert_eq!(told(KUBELET_SERVING, &node(), &usages).as_deref(), Some(required));
        for name in [SubjectAltNameKind::Host, SubjectAltNameKind::Address] {
            let subject = CertificateRequestInfo {
                names: vec![name],
                ..node()
            };
            assert_eq!(told(KUBELET_SERVING, &subject, &usages), None);
            let mismatch = "usages did not match [digital signature key encipherment server auth]";
            assert_eq!(
                told(KUBELET_SERVING, &subject, &[CLIENT_AUTH]).as_deref(),
                Some(mismatch)
            );
        }
    }

    #[test]
    fn clients_get_certificates_for_clients() {
        let anybody = CertificateRequestInfo::default;
        let missing = "missing required usage for client certificate: client auth";
        let invalid = "invalid usage for client certificate: server auth";
        assert_eq!(told(CLIENT, &anybody(), &[CLIENT_AUTH]), None);
        assert_eq!(told(CLIENT, &anybody(), &[SIGNATURE]).as_deref(), Some(missing));
        assert_eq!(
            told(CLIENT, &anybody(), &[CLIENT_AUTH, SERVER_AUTH]).as_deref(),
            Some(invalid)
        );
        assert_eq!(told(LEGACY, &anybody(), &["any"]), None);
        assert_eq!(check("example.com/mine", &anybody(), &[]), None);
    }
}
