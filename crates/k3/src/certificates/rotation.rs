//! Other keys and certificates in the place of those that are there, while servers and clients go on.
//!
//! An authority is replaced in two steps. From the first on there are two, `ca` and `ca-next`: both are trusted and published, the
//! server still shows a certificate of the old one, and clients get theirs from the new one. So whoever knew the old one
//! goes on, and learns of the new one from the kubeconfig, or from the config map in its namespace. The second step makes the new one the
//! only one. A server that showed the new one from the start would be a stranger to every client that has not learned of it yet.
//!
//! The token signing key is replaced at once: the new one signs, and the old one is trusted until the second step.
//!
//! Promises: each step survives a crash at any moment; a server that runs notices when [`GENERATION`] changes, which is written last.

use std::{fs, io, path::Path};

use clap::ValueEnum;
use k3_apiserver::PublicKey;
use k3_pki::{Certificate, KeyPair, read_public_keys};
use k3_storage::Clock;

use super::{
    Names,
    authority::Authority,
    certificates::{
        ADMIN, CertificateError, Certificates, KUBELET_CLIENT, LOCK, SERVER, SIGNING_KEY, seconds,
    },
};
use crate::secret_file;

/// The file that changes whenever others here were replaced.
pub(crate) const GENERATION: &str = "generation";
/// The keys that tokens were signed with before.
pub(super) const OLD_SIGNING_KEYS: &str = "service-account-old.pub";

/// What can be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RotationTarget {
    /// The certificate authority, in two steps: this one, and --finish
    Ca,
    /// The serving certificate
    Serving,
    /// The client certificates of the admin and of the server
    Client,
    /// The signing key of service account tokens
    ServiceAccount,
}

/// Replaces parts of what is in a directory.
pub(crate) fn rotate(
    directory: &Path,
    parts: &[RotationTarget],
    clock: &dyn Clock,
) -> Result<Certificates, CertificateError> {
    change(directory, clock, |now| {
        if parts.contains(&RotationTarget::Ca) {
            if directory.join("ca-next.crt").exists() {
                return Err(CertificateError::UnderWay);
            }
            // One that an earlier attempt has left, without a certificate, was never used.
            Authority::ensure_next(directory, now)?;
        }
        if parts.contains(&RotationTarget::ServiceAccount) {
            replace_signing_key(directory)?;
        }
        let replaced = parts.iter().flat_map(|part| match part {
            RotationTarget::Serving => &[SERVER][..],
            RotationTarget::Client => &[ADMIN, KUBELET_CLIENT],
            RotationTarget::Ca | RotationTarget::ServiceAccount => &[],
        });
        // What is not there is made: so that a crash in between is repaired by the next start.
        replaced
            .into_iter()
            .try_for_each(|name| remove(directory, &format!("{name}.crt")))
    })
}

/// The second step: replaced keys are no longer trusted.
pub(crate) fn finish(directory: &Path, clock: &dyn Clock) -> Result<Certificates, CertificateError> {
    change(directory, clock, |_| {
        if directory.join("ca-next.crt").exists() {
            rename(directory, "ca-next.key", "ca.key")?;
            finish_interrupted_rotation(directory)?;
        }
        remove(directory, OLD_SIGNING_KEYS)
    })
}

/// Changes what is in a directory, and makes what is missing then.
fn change(
    directory: &Path,
    clock: &dyn Clock,
    change: impl FnOnce(i64) -> Result<(), CertificateError>,
) -> Result<Certificates, CertificateError> {
    let now = seconds(clock)?;
    let nothing = || CertificateError::Nothing {
        directory: directory.to_path_buf(),
    };
    if !directory.is_dir() {
        return Err(nothing());
    }
    let _lock = secret_file::lock(&directory.join(LOCK))?;
    finish_interrupted_rotation(directory)?;
    // The names are those of the server, which knows them; the certificate says what they were.
    let pem = secret_file::read(&directory.join(format!("{SERVER}.crt")))?.ok_or_else(nothing)?;
    let certificate = Certificate::from_pem(pem.as_bytes()).map_err(|_| nothing())?;
    change(now)?;
    let made = Certificates::ensure_locked(directory, &Names::from_hosts(&certificate.names.hosts()), now)?;
    secret_file::write(&directory.join(GENERATION), &format!("{now}\n"))?;
    Ok(made)
}

/// Ends a second step that was interrupted: between the key of the new authority and its certificate.
pub(super) fn finish_interrupted_rotation(directory: &Path) -> Result<(), CertificateError> {
    if directory.join("ca-next.crt").exists() && !directory.join("ca-next.key").exists() {
        rename(directory, "ca-next.crt", "ca.crt")?;
    }
    Ok(())
}

fn replace_signing_key(directory: &Path) -> Result<(), CertificateError> {
    let path = directory.join(SIGNING_KEY);
    if let Some(pem) = secret_file::read(&path)? {
        let old = KeyPair::from_pem(&pem).map_err(|source| CertificateError::Key {
            path: path.clone(),
            source,
        })?;
        let kept = directory.join(OLD_SIGNING_KEYS);
        let mut keys = secret_file::read(&kept)?.unwrap_or_default();
        keys.push_str(&old.public_key_pem());
        secret_file::write(&kept, &keys)?;
    }
    let key = KeyPair::generate()?;
    Ok(secret_file::write(&path, &key.to_pem())?)
}

/// Earlier signing keys whose tokens are still accepted.
pub(super) fn old_signing_keys(directory: &Path) -> Result<Vec<PublicKey>, CertificateError> {
    let path = directory.join(OLD_SIGNING_KEYS);
    let Some(pem) = secret_file::read(&path)? else {
        return Ok(Vec::new());
    };
    let keys = read_public_keys(pem.as_bytes()).ok();
    keys.and_then(|keys| keys.into_iter().map(|key| PublicKey::new(key).ok()).collect())
        .ok_or(CertificateError::PublicKeys { path })
}

fn rename(directory: &Path, from: &str, to: &str) -> Result<(), CertificateError> {
    let path = directory.join(to);
    fs::rename(directory.join(from), &path).map_err(|source| CertificateError::Replace { path, source })
}

fn remove(directory: &Path, name: &str) -> Result<(), CertificateError> {
    let path = directory.join(name);
    match fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(CertificateError::Replace { path, source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use k3_storage::SystemClock;

    use super::*;

    const ALL: [RotationTarget; 4] = [
        RotationTarget::Ca,
        RotationTarget::Serving,
        RotationTarget::Client,
        RotationTarget::ServiceAccount,
    ];

    fn started() -> (tempfile::TempDir, Certificates) {
        let directory = tempfile::tempdir().unwrap();
        let mut names = Names::new([]);
        names.extend(["k3.example.com".parse().unwrap()]);
        let made = Certificates::ensure(directory.path(), &names, &SystemClock).unwrap();
        (directory, made)
    }

    fn names(made: &Certificates) -> Vec<String> {
        Certificate::from_der(&made.server.der().unwrap().0)
            .unwrap()
            .names
            .hosts()
    }

    #[test]
    fn the_first_step_trusts_both_authorities_and_the_second_the_new_one_alone() {
        let (directory, old) = started();
        let both = rotate(directory.path(), &ALL, &SystemClock).unwrap();
        assert!(both.authority.starts_with(&old.authority));
        assert_eq!(both.authorities().unwrap().len(), 2);
        assert!(
            both.server != old.server && both.admin != old.admin && both.kubelet_client != old.kubelet_client
        );
        assert_eq!(names(&both), names(&old));
        let new = finish(directory.path(), &SystemClock).unwrap();
        assert_eq!(new.authorities().unwrap().len(), 1);
        assert!(both.authority.ends_with(&new.authority) && new.authority != old.authority);
        assert!(new.admin == both.admin && new.server != both.server);
        assert_eq!(names(&new), names(&old));
    }

    #[test]
    fn trusts_the_old_signing_key_until_the_second_step() {
        let (directory, old) = started();
        let both = rotate(directory.path(), &[RotationTarget::ServiceAccount], &SystemClock).unwrap();
        assert_ne!(both.signing_key, old.signing_key);
        assert_eq!(both.old_signing_keys.len(), 1);
        assert!(both.server == old.server && both.authority == old.authority);
        let more = rotate(directory.path(), &[RotationTarget::ServiceAccount], &SystemClock).unwrap();
        assert_eq!(more.old_signing_keys.len(), 2);
        let new = finish(directory.path(), &SystemClock).unwrap();
        assert_eq!(new.signing_key, more.signing_key);
        assert!(new.old_signing_keys.is_empty());
    }

    #[test]
    fn a_second_step_that_was_interrupted_is_ended_by_the_next_start() {
        let (directory, old) = started();
        rotate(directory.path(), &[RotationTarget::Ca], &SystemClock).unwrap();
        fs::rename(
            directory.path().join("ca-next.key"),
            directory.path().join("ca.key"),
        )
        .unwrap();
        let names = Names::from_hosts(&names(&old));
        let new = Certificates::ensure(directory.path(), &names, &SystemClock).unwrap();
        assert_eq!(new.authorities().unwrap().len(), 1);
        assert_ne!(new.authority, old.authority);
        assert!(crate::tls::Tls::new(&new).is_ok());
    }

    #[test]
    fn a_second_rotation_waits_for_the_end_of_the_first_and_nothing_cannot_be_rotated() {
        let (directory, _) = started();
        rotate(directory.path(), &[RotationTarget::Ca], &SystemClock).unwrap();
        let again = rotate(directory.path(), &[RotationTarget::Ca], &SystemClock).map(drop);
        assert!(matches!(again, Err(CertificateError::UnderWay)));
        let empty = tempfile::tempdir().unwrap();
        let nothing = rotate(empty.path(), &ALL, &SystemClock).map(drop);
        assert!(matches!(nothing, Err(CertificateError::Nothing { .. })));
    }
}
