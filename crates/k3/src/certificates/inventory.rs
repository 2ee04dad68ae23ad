//! Lists the certificates of a directory without creating or verifying anything.

use std::path::Path;

use k3_pki::Certificate;
use kubecontroller::Clock;

use super::{
    CertificateAndKey,
    certificate_and_key::DAY,
    rotation::old_signing_keys,
    server_certificates::{ADMIN, CertificateError, KUBELET_CLIENT, SERVER, SIGNING_KEY, seconds},
};
use crate::secret_file;

/// A certificate or key file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateInfo {
    /// The file name without extension.
    pub(crate) name: &'static str,
    /// Its use, for people.
    pub(crate) purpose: &'static str,
    /// Expiry in seconds since 1970; `None` for keys.
    pub(crate) ends: Option<i64>,
    /// Days until expiry.
    pub(crate) days_left: Option<i64>,
    /// The names of a serving certificate, or the user of a client certificate.
    pub(crate) names: Vec<String>,
    /// Why it is invalid.
    pub(crate) flaw: Option<String>,
}

const CERTIFICATES: [(&str, &str); 5] = [
    ("ca", "certificate authority of the cluster"),
    (
        "ca-next",
        "next certificate authority: `k3 certs rotate --finish`",
    ),
    (SERVER, "serving certificate of the API server"),
    (ADMIN, "client certificate of the admin"),
    (KUBELET_CLIENT, "client certificate of the server for nodes"),
];

/// Lists the files of a directory.
pub(crate) fn list_certificates(
    directory: &Path,
    clock: &Clock,
) -> Result<Vec<CertificateInfo>, CertificateError> {
    let now = seconds(clock)?;
    let mut infos = Vec::new();
    for (name, purpose) in CERTIFICATES {
        let certificate = secret_file::read(&directory.join(format!("{name}.crt")))?;
        let key = secret_file::read(&directory.join(format!("{name}.key")))?;
        if name == "ca-next" && certificate.is_none() {
            continue;
        }
        infos.push(match (certificate, key) {
            (None, _) => CertificateInfo::flawed(name, purpose, format!("{name}.crt is missing")),
            (_, None) => CertificateInfo::flawed(name, purpose, format!("{name}.key is missing")),
            (Some(certificate), Some(key)) => {
                inspect(name, purpose, &CertificateAndKey { certificate, key }, now)
            }
        });
    }
    let name = "service-account";
    let purpose = "signing key of service account tokens";
    infos.push(match secret_file::read(&directory.join(SIGNING_KEY))? {
        None => CertificateInfo::flawed(name, purpose, format!("{SIGNING_KEY} is missing")),
        Some(_) => CertificateInfo {
            flaw: None,
            ..CertificateInfo::flawed(name, purpose, String::new())
        },
    });
    let old = old_signing_keys(directory)?;
    if !old.is_empty() {
        infos.push(CertificateInfo {
            flaw: None,
            names: vec![format!("{} keys", old.len())],
            ..CertificateInfo::flawed(
                "service-account-old",
                "earlier token signing keys: trusted until `k3 certs rotate --finish`",
                String::new(),
            )
        });
    }
    Ok(infos)
}

fn inspect(
    name: &'static str,
    purpose: &'static str,
    identity: &CertificateAndKey,
    now: i64,
) -> CertificateInfo {
    let Ok(certificate) = Certificate::from_pem(identity.certificate.as_bytes()) else {
        return CertificateInfo::flawed(name, purpose, format!("{name}.crt is not a certificate"));
    };
    let flaw = if !identity.is_pair() {
        Some(format!("{name}.key is not the key of {name}.crt"))
    } else if certificate.not_before > now {
        Some("it is not valid yet: check the clock".to_owned())
    } else if certificate.not_after <= now {
        Some("it has expired".to_owned())
    } else {
        None
    };
    let mut names = certificate.names.hosts();
    if names.is_empty() {
        names.push(certificate.identity.common_name);
    }
    CertificateInfo {
        name,
        purpose,
        ends: Some(certificate.not_after),
        days_left: Some((certificate.not_after - now) / DAY),
        names,
        flaw,
    }
}

// --- CertificateInfo ---

impl CertificateInfo {
    fn flawed(name: &'static str, purpose: &'static str, flaw: String) -> Self {
        CertificateInfo {
            name,
            purpose,
            ends: None,
            days_left: None,
            names: Vec::new(),
            flaw: Some(flaw),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use kubecontroller::Clock;

    use super::{
        super::{ServerCertificates, SubjectAltNames},
        *,
    };

    #[test]
    fn lists_expiry_of_valid_and_flaw_of_invalid_certificates() {
        let directory = tempfile::tempdir().unwrap();
        ServerCertificates::ensure(directory.path(), &SubjectAltNames::new([]), &Clock::system()).unwrap();
        let infos = list_certificates(directory.path(), &Clock::system()).unwrap();
        assert!(infos.iter().all(|infos| infos.flaw.is_none()), "{infos:?}");
        let server = infos.iter().find(|infos| infos.name == "server").unwrap();
        // The clock may have advanced by a second since it was created.
        assert!(
            matches!(server.days_left, Some(364 | 365)),
            "{:?}",
            server.days_left
        );
        assert!(server.names.contains(&"localhost".to_owned()));

        fs::copy(
            directory.path().join("admin.key"),
            directory.path().join("server.key"),
        )
        .unwrap();
        fs::remove_file(directory.path().join("ca.key")).unwrap();
        let infos = list_certificates(directory.path(), &Clock::system()).unwrap();
        let flawed: Vec<_> = infos
            .iter()
            .filter(|infos| infos.flaw.is_some())
            .map(|infos| infos.name)
            .collect();
        assert_eq!(flawed, ["ca", "server"]);
    }
}
