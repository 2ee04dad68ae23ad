//! Replaces keys and certificates while servers and clients keep running.
//!
//! The certificate authority is replaced in two steps. After the first step both authorities, `ca` and `ca-next`, are trusted and
//! published. The server keeps its certificate of the old authority, and clients get certificates of the new one. Clients
//! that trust only the old authority keep working, and learn the new one from a new kubeconfig or from the config map of their
//! namespace. The second step removes the old authority. If the server used a certificate of the new authority at once, every
//! client that does not know it yet would reject the connection.
//!
//! The signing key of tokens is replaced at once: the new key signs, and the old one is accepted until the second step.
//!
//! Each step survives a crash at any point. A running server notices a change of [`GENERATION`], which is written last.

use std::{fs, io, path::Path};

use clap::ValueEnum;
use k3_apiserver::PublicKey;
use k3_pki::{Certificate, KeyPair, read_public_keys};
use kubecontroller::Clock;

use super::{
    SubjectAltNames,
    authority::ClusterAuthority,
    server_certificates::{
        ADMIN, CertificateError, KUBELET_CLIENT, LOCK, SERVER, SIGNING_KEY, ServerCertificates, seconds,
    },
};
use crate::secret_file;

/// Changed after every replacement of other files.
pub(crate) const GENERATION: &str = "generation";
/// Earlier signing keys of tokens.
pub(super) const OLD_SIGNING_KEYS: &str = "service-account-old.pub";

/// What to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RotationTarget {
    /// The certificate authority; takes two steps, this one and --finish
    Ca,
    /// The serving certificate
    Serving,
    /// The client certificates of the admin and of the server
    Client,
    /// The signing key of service account tokens
    ServiceAccount,
}

/// Replaces certificates or keys of a directory.
pub(crate) fn rotate(
    directory: &Path,
    parts: &[RotationTarget],
    clock: &Clock,
) -> Result<ServerCertificates, CertificateError> {
    change(directory, clock, |now| {
        if parts.contains(&RotationTarget::Ca) {
            if directory.join("ca-next.crt").exists() {
                return Err(CertificateError::UnderWay);
            }
            // A key without a certificate is left over from an interrupted rotation and was never used.
            ClusterAuthority::ensure_next(directory, now)?;
        }
        if parts.contains(&RotationTarget::ServiceAccount) {
            replace_signing_key(directory)?;
        }
        let replaced = parts.iter().flat_map(|part| match part {
            RotationTarget::Serving => &[SERVER][..],
            RotationTarget::Client => &[ADMIN, KUBELET_CLIENT],
            RotationTarget::Ca | RotationTarget::ServiceAccount => &[],
        });
        // The next start creates missing files, so a crash after the removal is repaired.
        replaced
            .into_iter()
            .try_for_each(|name| remove(directory, &format!("{name}.crt")))
    })
}

/// Runs the second step: replaced keys are no longer trusted.
pub(crate) fn finish(directory: &Path, clock: &Clock) -> Result<ServerCertificates, CertificateError> {
    change(directory, clock, |_| {
        if directory.join("ca-next.crt").exists() {
            rename(directory, "ca-next.key", "ca.key")?;
            finish_interrupted_rotation(directory)?;
        }
        remove(directory, OLD_SIGNING_KEYS)
    })
}

/// Changes a directory under its lock, then creates missing files.
fn change(
    directory: &Path,
    clock: &Clock,
    change: impl FnOnce(i64) -> Result<(), CertificateError>,
) -> Result<ServerCertificates, CertificateError> {
    let now = seconds(clock)?;
    let nothing = || CertificateError::Nothing {
        directory: directory.to_path_buf(),
    };
    if !directory.is_dir() {
        return Err(nothing());
    }
    let _lock = secret_file::lock(&directory.join(LOCK))?;
    finish_interrupted_rotation(directory)?;
    // Only the server knows its names; reuse those of the current certificate.
    let pem = secret_file::read(&directory.join(format!("{SERVER}.crt")))?.ok_or_else(nothing)?;
    let certificate = Certificate::from_pem(pem.as_bytes()).map_err(|_| nothing())?;
    change(now)?;
    let made = ServerCertificates::ensure_locked(
        directory,
        &SubjectAltNames::from_hosts(&certificate.names.hosts()),
        now,
    )?;
    secret_file::write(&directory.join(GENERATION), &format!("{now}\n"))?;
    Ok(made)
}

/// Completes an interrupted second step, which renames the key of the new authority before its certificate.
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
    use kubecontroller::Clock;

    use super::*;

    const ALL: [RotationTarget; 4] = [
        RotationTarget::Ca,
        RotationTarget::Serving,
        RotationTarget::Client,
        RotationTarget::ServiceAccount,
    ];

    fn started() -> (tempfile::TempDir, ServerCertificates) {
        let directory = tempfile::tempdir().unwrap();
        let mut names = SubjectAltNames::new([]);
        names.extend(["k3.example.com".parse().unwrap()]);
        let made = ServerCertificates::ensure(directory.path(), &names, &Clock::system()).unwrap();
        (directory, made)
    }

    fn names(made: &ServerCertificates) -> Vec<String> {
        Certificate::from_der(&made.server.der().unwrap().0)
            .unwrap()
            .names
            .hosts()
    }

    #[test]
    fn trusts_both_authorities_until_the_second_step() {
        let (directory, old) = started();
        let both = rotate(directory.path(), &ALL, &Clock::system()).unwrap();
        assert!(both.authority.starts_with(&old.authority));
        assert_eq!(both.authorities().unwrap().len(), 2);
        assert!(
            both.server != old.server && both.admin != old.admin && both.kubelet_client != old.kubelet_client
        );
        assert_eq!(names(&both), names(&old));
        let new = finish(directory.path(), &Clock::system()).unwrap();
        assert_eq!(new.authorities().unwrap().len(), 1);
        assert!(both.authority.ends_with(&new.authority) && new.authority != old.authority);
        assert!(new.admin == both.admin && new.server != both.server);
        assert_eq!(names(&new), names(&old));
    }

    #[test]
    fn trusts_the_old_signing_key_until_the_second_step() {
        let (directory, old) = started();
        let both = rotate(
            directory.path(),
            &[RotationTarget::ServiceAccount],
            &Clock::system(),
        )
        .unwrap();
        assert_ne!(both.signing_key, old.signing_key);
        assert_eq!(both.old_signing_keys.len(), 1);
        assert!(both.server == old.server && both.authority == old.authority);
        let more = rotate(
            directory.path(),
            &[RotationTarget::ServiceAccount],
            &Clock::system(),
        )
        .unwrap();
        assert_eq!(more.old_signing_keys.len(), 2);
        let new = finish(directory.path(), &Clock::system()).unwrap();
        assert_eq!(new.signing_key, more.signing_key);
        assert!(new.old_signing_keys.is_empty());
    }

    #[test]
    fn the_next_start_completes_an_interrupted_second_step() {
        let (directory, old) = started();
        rotate(directory.path(), &[RotationTarget::Ca], &Clock::system()).unwrap();
        fs::rename(
            directory.path().join("ca-next.key"),
            directory.path().join("ca.key"),
        )
        .unwrap();
        let names = SubjectAltNames::from_hosts(&names(&old));
        let new = ServerCertificates::ensure(directory.path(), &names, &Clock::system()).unwrap();
        assert_eq!(new.authorities().unwrap().len(), 1);
        assert_ne!(new.authority, old.authority);
        assert!(crate::tls::ServerTls::new(&new).is_ok());
    }

    #[test]
    fn rejects_a_second_rotation_and_an_empty_directory() {
        let (directory, _) = started();
        rotate(directory.path(), &[RotationTarget::Ca], &Clock::system()).unwrap();
        let again = rotate(directory.path(), &[RotationTarget::Ca], &Clock::system()).map(drop);
        assert!(matches!(again, Err(CertificateError::UnderWay)));
        let empty = tempfile::tempdir().unwrap();
        let nothing = rotate(empty.path(), &ALL, &Clock::system()).map(drop);
        assert!(matches!(nothing, Err(CertificateError::Nothing { .. })));
    }
}
