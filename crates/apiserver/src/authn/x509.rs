//! Users with client certificates: the common name is the user's, the organizations are the groups.
//!
//! Promise: the bytes are taken as they are. Only a certificate that TLS has verified may come here.

use k3_api::rules::User;
use ring::digest::{SHA256, digest};

use super::{BadCertificate, Certificate, authenticated};

const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Why there is no user in a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CertificateUserError {
    /// It cannot be read.
    #[error(transparent)]
    Certificate(#[from] BadCertificate),
    /// Its uid makes no sense.
    #[error("the certificate's subject: {0}")]
    Uid(BadUid),
}

/// What is wrong with the uid of a certificate's subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadUid {
    /// There are several.
    #[error("expected 1 UID, but found {0}")]
    Several(usize),
    /// It is there and empty.
    #[error("UID cannot be an empty string")]
    Empty,
}

/// The user that a verified certificate, in DER form, is for; `None` if it names nobody.
pub(crate) fn certificate_user(der: &[u8]) -> Result<Option<User>, CertificateUserError> {
    let certificate = Certificate::read(der)?;
    if certificate.common_name.is_empty() {
        return Ok(None);
    }
    let uid = match certificate.uids.as_slice() {
        [] => String::new(),
        [uid] if uid.is_empty() => return Err(CertificateUserError::Uid(BadUid::Empty)),
        [uid] => uid.clone(),
        several => return Err(CertificateUserError::Uid(BadUid::Several(several.len()))),
    };
    Ok(Some(authenticated(User {
        name: certificate.common_name,
        uid,
        groups: certificate.organizations,
        extra: vec![(CREDENTIAL_ID.to_owned(), vec![fingerprint(der)])],
    })))
}

fn fingerprint(der: &[u8]) -> String {
    let mut text = "X509SHA256=".to_owned();
    for byte in digest(&SHA256, der).as_ref() {
        for digit in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use rcgen::DnType;

    use super::{super::certificate::tests::made, *};

    fn uid() -> DnType {
        DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2])
    }

    #[test]
    fn the_subject_is_the_user() {
        let der = made(
            &[],
            &[
                (DnType::CommonName, "admin".into()),
                (DnType::OrganizationName, "system:masters".into()),
                (uid(), "u-1".into()),
            ],
        );
        let user = certificate_user(&der).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("admin", "u-1"));
        assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
        let [(key, values)] = user.extra.as_slice() else {
            panic!("{:?}", user.extra);
        };
        assert_eq!(key, CREDENTIAL_ID);
        assert_eq!(values.len(), 1);
        assert_eq!(values[0].len(), "X509SHA256=".len() + 64);
    }

    #[test]
    fn a_certificate_without_a_common_name_is_nobodys() {
        let der = made(
            &["localhost"],
            &[(DnType::OrganizationName, "system:masters".into())],
        );
        assert_eq!(certificate_user(&der), Ok(None));
    }

    #[test]
    fn an_empty_uid_is_refused() {
        let der = made(&[], &[(DnType::CommonName, "a".into()), (uid(), "".into())]);
        assert_eq!(
            certificate_user(&der),
            Err(CertificateUserError::Uid(BadUid::Empty))
        );
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        assert!(certificate_user(b"nonsense").is_err());
    }

    #[test]
    fn a_fingerprint_is_the_hash_in_hexadecimal() {
        let known = "X509SHA256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(fingerprint(b""), known);
    }
}
