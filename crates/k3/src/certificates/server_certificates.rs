//! The certificates and keys of a server, loaded from its directory.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use k3_apiserver::{NODE_CLIENT_USER, PublicKey};
use k3_pki::{IssueError, KeyError, KeyPair, ParseError, PemError, read_certificates};
use kubecontroller::Clock;
use rustls::pki_types::CertificateDer;

use super::{
    CertificateAndKey, SubjectAltNames, authority::ClusterAuthority, certificate_and_key::CertificatePurpose,
    directory::protect_tls_directory, rotation,
};
use crate::secret_file::{self, FileError};

/// Lock file for changes of the directory.
pub(super) const LOCK: &str = ".lock";
/// File names of certificates and their keys, without extension.
pub(super) const SERVER: &str = "server";
pub(super) const ADMIN: &str = "admin";
pub(super) const KUBELET_CLIENT: &str = "apiserver-kubelet-client";
pub(super) const SIGNING_KEY: &str = "service-account.key";

const ADMIN_PURPOSE: CertificatePurpose<'_> = CertificatePurpose::Client {
    name: "kubernetes-admin",
    groups: &["system:masters"],
};
/// No groups: a role allows this user access to nodes only.
const KUBELET_CLIENT_PURPOSE: CertificatePurpose<'_> = CertificatePurpose::Client {
    name: NODE_CLIENT_USER,
    groups: &[],
};

/// The certificates and keys of a server.
pub(crate) struct ServerCertificates {
    /// Trusted authorities in PEM: one, or two during a rotation.
    pub(crate) authority: String,
    /// Authorities of client certificates in PEM: the trusted authorities, unless configured.
    pub(crate) clients: String,
    /// The serving certificate, with intermediate certificates.
    pub(crate) server: CertificateAndKey,
    /// The client certificate of the administrator.
    pub(crate) admin: CertificateAndKey,
    /// The client certificate for requests to nodes.
    pub(crate) kubelet_client: CertificateAndKey,
    /// The signing key of service account tokens: ECDSA P-256, PKCS#8 DER.
    pub(crate) signing_key: Vec<u8>,
    /// Earlier signing keys whose tokens are still accepted.
    pub(crate) old_signing_keys: Vec<PublicKey>,
    /// The authority that signs certificates for nodes.
    pub(crate) issuer: Arc<ClusterAuthority>,
}

/// Why certificates could not be loaded or created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error(transparent)]
    File(#[from] FileError),
    /// A key file contains no key.
    #[error("{} contains no private key in PEM", .path.display())]
    Key {
        path: PathBuf,
        #[source]
        source: KeyError,
    },
    /// The authority's key is missing.
    #[error("the private key {} is missing, but its certificate exists", .path.display())]
    KeyMissing { path: PathBuf },
    /// The authority's certificate does not match its key.
    #[error("the certificate {} does not match its private key", .path.display())]
    AuthorityUnfit { path: PathBuf },
    /// A file of public keys is malformed.
    #[error("{} contains no public keys in PEM", .path.display())]
    PublicKeys { path: PathBuf },
    /// A rename failed.
    #[error("cannot replace {}", .path.display())]
    Replace {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// There are no certificates to replace.
    #[error("there are no certificates in {}", .directory.display())]
    Nothing { directory: PathBuf },
    /// A rotation was started and not finished.
    #[error("a rotation of the certificate authority is in progress")]
    UnderWay,
    /// The clock shows a time before 1970.
    #[error("the machine's clock is not set")]
    Clock,
    /// The system returned no random bytes.
    #[error("the system returned no random bytes")]
    Random,
    /// Signing failed.
    #[error("cannot create a certificate")]
    Make(#[from] IssueError),
    /// Key generation failed.
    #[error("cannot generate a key")]
    MakeKey(#[from] KeyError),
    /// A file contains no certificate.
    #[error("cannot parse a certificate")]
    Pem(#[from] PemError),
    /// A certificate or key is malformed.
    #[error("cannot parse a certificate or key")]
    Read(#[source] ParseError),
    /// rustls rejects a certificate or key.
    #[error("TLS rejects the certificates")]
    Tls(#[from] rustls::Error),
}

// --- ServerCertificates ---

impl ServerCertificates {
    /// Uses a configured signing key for tokens. Tokens that the key of the directory signed are no longer accepted.
    pub(crate) fn with_signing_key(mut self, key: Option<&[u8]>) -> Self {
        if let Some(key) = key {
            self.signing_key = key.to_vec();
            self.old_signing_keys.clear();
        }
        self
    }

    /// Whether both are equal, so that there is nothing to replace.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        // Destructured, so that a new field cannot be forgotten. The issuer is compared by its certificate.
        let ServerCertificates {
            authority,
            clients,
            server,
            admin,
            kubelet_client,
            signing_key,
            old_signing_keys,
            issuer,
        } = self;
        *authority == other.authority
            && *clients == other.clients
            && *server == other.server
            && *admin == other.admin
            && *kubelet_client == other.kubelet_client
            && *signing_key == other.signing_key
            && *old_signing_keys == other.old_signing_keys
            && issuer.pem() == other.issuer.pem()
    }

    /// Loads the certificates of `directory`; creates or renews them as needed.
    pub(crate) fn ensure(
        directory: &Path,
        names: &SubjectAltNames,
        clock: &Clock,
    ) -> Result<Self, CertificateError> {
        let now = seconds(clock)?;
        protect_tls_directory(directory)?;
        // Without the lock, two servers that start together would each generate keys.
        let _lock = secret_file::lock(&directory.join(LOCK))?;
        Self::ensure_locked(directory, names, now)
    }

    /// Like `ensure`, for callers that hold the lock of the directory.
    pub(super) fn ensure_locked(
        directory: &Path,
        names: &SubjectAltNames,
        now: i64,
    ) -> Result<Self, CertificateError> {
        rotation::finish_interrupted_rotation(directory)?;
        let current = ClusterAuthority::ensure(directory, now)?;
        let next = ClusterAuthority::next(directory, now)?;
        let server = identity(
            directory,
            SERVER,
            &current,
            &CertificatePurpose::Server(names),
            now,
        )?;
        let mut authority = current.pem().to_owned();
        if let Some(next) = &next {
            authority.push_str(next.pem());
        }
        let kubelet_client = identity(directory, KUBELET_CLIENT, &current, &KUBELET_CLIENT_PURPOSE, now)?;
        // The server trusts both authorities, so client certificates are issued by the next one, which outlasts the rotation. Nodes
        // may know only the old authority.
        let issuer = next.unwrap_or(current);
        let admin = identity(directory, ADMIN, &issuer, &ADMIN_PURPOSE, now)?;
        Ok(Self {
            server,
            admin,
            kubelet_client,
            signing_key: signing_key(directory)?,
            old_signing_keys: rotation::old_signing_keys(directory)?,
            clients: authority.clone(),
            authority,
            issuer: Arc::new(issuer),
        })
    }

    /// Creates certificates of a new authority in memory, without files.
    pub(crate) fn generate(names: &SubjectAltNames, clock: &Clock) -> Result<Self, CertificateError> {
        let now = seconds(clock)?;
        let authority = ClusterAuthority::generate(now)?;
        let issue = |purpose: CertificatePurpose<'_>| CertificateAndKey::issue(&authority, &purpose, now);
        Ok(Self {
            server: issue(CertificatePurpose::Server(names))?,
            admin: issue(ADMIN_PURPOSE)?,
            kubelet_client: issue(KUBELET_CLIENT_PURPOSE)?,
            signing_key: KeyPair::generate()?.to_pkcs8(),
            old_signing_keys: Vec::new(),
            authority: authority.pem().to_owned(),
            clients: authority.pem().to_owned(),
            issuer: Arc::new(authority),
        })
    }

    /// The trusted authorities for rustls.
    pub(crate) fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
        Ok(read_certificates(self.authority.as_bytes())?)
    }

    /// The authorities of client certificates for rustls.
    pub(crate) fn clients_der(&self) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
        Ok(read_certificates(self.clients.as_bytes())?)
    }
}

/// The time for certificates, in seconds since 1970.
pub(super) fn seconds(clock: &Clock) -> Result<i64, CertificateError> {
    let now = clock.system_time().duration_since(std::time::UNIX_EPOCH);
    now.ok()
        .and_then(|now| i64::try_from(now.as_secs()).ok())
        .ok_or(CertificateError::Clock)
}

fn identity(
    directory: &Path,
    name: &str,
    authority: &ClusterAuthority,
    purpose: &CertificatePurpose<'_>,
    now: i64,
) -> Result<CertificateAndKey, CertificateError> {
    let certificate_path = directory.join(format!("{name}.crt"));
    let key_path = directory.join(format!("{name}.key"));
    let written = (
        secret_file::read(&certificate_path)?,
        secret_file::read(&key_path)?,
    );
    if let (Some(certificate), Some(key)) = written {
        let identity = CertificateAndKey { certificate, key };
        match identity.flaw(authority, purpose, now) {
            None => return Ok(identity),
            Some(flaw) => tracing::info!("replacing certificate {name}.crt: {flaw}"),
        }
    }
    let identity = CertificateAndKey::issue(authority, purpose, now)?;
    // A crash between the two writes leaves a mismatched pair, which the next start detects and replaces.
    secret_file::write(&key_path, &identity.key)?;
    secret_file::write(&certificate_path, &identity.certificate)?;
    Ok(identity)
}

/// Loads the signing key of service account tokens. It is replaced only on request, because existing tokens depend on it.
fn signing_key(directory: &Path) -> Result<Vec<u8>, CertificateError> {
    let path = directory.join(SIGNING_KEY);
    if let Some(pem) = secret_file::read(&path)? {
        let key = KeyPair::from_pem(&pem).map_err(|source| CertificateError::Key { path, source })?;
        return Ok(key.to_pkcs8());
    }
    let key = KeyPair::generate()?;
    secret_file::write(&path, &key.to_pem())?;
    Ok(key.to_pkcs8())
}

#[cfg(test)]
mod tests {
    use std::{fs, thread, time::Duration};

    use k3_pki::Certificate;
    use k8s_openapi::jiff::Timestamp;

    use super::{super::certificate_and_key::DAY, *};

    /// A clock that is fixed to a day.
    fn fixed_day(day: u64) -> Clock {
        Clock::new(move || Timestamp::UNIX_EPOCH + Duration::from_hours(24 * day))
    }

    const TODAY: u64 = 20_000;

    fn names(extra: &[&str]) -> SubjectAltNames {
        let mut names = SubjectAltNames::new([]);
        names.extend(extra.iter().map(|name| name.parse().unwrap()));
        names
    }

    fn ensure(directory: &Path, day: u64) -> ServerCertificates {
        ServerCertificates::ensure(directory, &names(&[]), &fixed_day(day)).unwrap()
    }

    fn read(identity: &CertificateAndKey) -> Certificate {
        Certificate::from_der(&identity.der().unwrap().0).unwrap()
    }

    #[test]
    fn a_second_start_keeps_all_files() {
        let directory = tempfile::tempdir().unwrap();
        let first = ensure(directory.path(), TODAY);
        let second = ensure(directory.path(), TODAY + 1);
        assert!(first.is_same(&second));
        assert_eq!(first.authority, second.authority);
        assert!(first.server == second.server && first.admin == second.admin);
        assert_eq!(first.signing_key, second.signing_key);
    }

    #[test]
    fn rustls_accepts_generated_certificates() {
        let directory = tempfile::tempdir().unwrap();
        assert!(crate::tls::ServerTls::new(&ensure(directory.path(), TODAY)).is_ok());
        let fresh = ServerCertificates::generate(&names(&[]), &fixed_day(TODAY)).unwrap();
        assert!(crate::tls::ServerTls::new(&fresh).is_ok());
    }

    #[test]
    fn renews_certificates_before_expiry() {
        let directory = tempfile::tempdir().unwrap();
        let first = ensure(directory.path(), TODAY);
        let end = i64::try_from(TODAY + 365).unwrap() * DAY;
        assert_eq!(read(&first.server).not_after, end);
        assert_eq!(read(&first.admin).not_after, end);
        let kept = ensure(directory.path(), TODAY + 365 - 90);
        assert!(kept.server == first.server && kept.admin == first.admin);
        let renewed = ensure(directory.path(), TODAY + 365 - 89);
        assert!(kept.is_same(&first) && !renewed.is_same(&first));
        assert!(renewed.server != first.server && renewed.admin != first.admin);
        assert_eq!(renewed.authority, first.authority);
        assert_eq!(renewed.signing_key, first.signing_key);
    }

    #[test]
    fn a_renewed_authority_verifies_existing_certificates() {
        let directory = tempfile::tempdir().unwrap();
        let seconds = |day: u64| i64::try_from(day).unwrap() * DAY;
        let late = seconds(TODAY + 9 * 365);
        let old = ClusterAuthority::ensure(directory.path(), seconds(TODAY)).unwrap();
        let new = ClusterAuthority::ensure(directory.path(), late).unwrap();
        assert_ne!(old.der(), new.der());
        for (issuer, verifier) in [(&old, &new), (&new, &old)] {
            let made = CertificateAndKey::issue(issuer, &ADMIN_PURPOSE, late).unwrap();
            assert_eq!(made.flaw(verifier, &ADMIN_PURPOSE, late), None);
        }
    }

    #[test]
    fn changed_names_replace_only_the_serving_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let ensure = |extra: &[&str]| {
            ServerCertificates::ensure(directory.path(), &names(extra), &fixed_day(TODAY)).unwrap()
        };
        let plain = ensure(&[]);
        let more = ensure(&["k3.example.com", "192.0.2.7"]);
        assert!(read(&more.server).names.hosts().contains(&"192.0.2.7".to_owned()));
        assert!(more.admin == plain.admin);
        let fewer = ensure(&["k3.example.com"]);
        assert!(
            !read(&fewer.server)
                .names
                .hosts()
                .contains(&"192.0.2.7".to_owned())
        );
        assert!(fewer.server == ensure(&["K3.example.com"]).server);
    }

    #[test]
    fn the_admin_is_in_system_masters() {
        let directory = tempfile::tempdir().unwrap();
        let admin = read(&ensure(directory.path(), TODAY).admin);
        assert_eq!(admin.identity.common_name, "kubernetes-admin");
        assert_eq!(admin.identity.organizations, ["system:masters"]);
    }

    #[test]
    fn replaces_a_client_certificate_with_groups() {
        let directory = tempfile::tempdir().unwrap();
        let first = ensure(directory.path(), TODAY);
        let authority =
            ClusterAuthority::ensure(directory.path(), i64::try_from(TODAY).unwrap() * DAY).unwrap();
        // The certificate that commit 6ea0c3a issued.
        let older = CertificatePurpose::Client {
            name: NODE_CLIENT_USER,
            groups: &["system:masters"],
        };
        let older =
            CertificateAndKey::issue(&authority, &older, i64::try_from(TODAY).unwrap() * DAY).unwrap();
        fs::write(
            directory.path().join(format!("{KUBELET_CLIENT}.crt")),
            &older.certificate,
        )
        .unwrap();
        fs::write(directory.path().join(format!("{KUBELET_CLIENT}.key")), &older.key).unwrap();
        let second = ensure(directory.path(), TODAY);
        let shown = read(&second.kubelet_client);
        assert_eq!(shown.identity.common_name, "kube-apiserver-kubelet-client");
        assert!(shown.identity.organizations.is_empty());
        assert!(second.kubelet_client != older);
        // The other files are unchanged, so nodes and users are not affected.
        assert_eq!(second.authority, first.authority);
        assert!(second.server == first.server && second.admin == first.admin);
    }

    #[test]
    fn replaces_a_mismatched_key_pair() {
        let directory = tempfile::tempdir().unwrap();
        let first = ensure(directory.path(), TODAY);
        // Simulates a crash between the two writes.
        fs::write(directory.path().join("server.key"), &first.admin.key).unwrap();
        let second = ensure(directory.path(), TODAY);
        assert!(second.server != first.server);
        assert!(crate::tls::ServerTls::new(&second).is_ok());
    }

    #[test]
    fn replaces_certificates_of_another_authority() {
        let [ours, theirs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        ensure(ours.path(), TODAY);
        let other = ensure(theirs.path(), TODAY);
        for (file, pem) in [
            ("server.crt", &other.server.certificate),
            ("server.key", &other.server.key),
            ("admin.crt", &other.admin.certificate),
            ("admin.key", &other.admin.key),
        ] {
            fs::write(ours.path().join(file), pem).unwrap();
        }
        let repaired = ensure(ours.path(), TODAY);
        assert!(repaired.server != other.server && repaired.admin != other.admin);
    }

    #[test]
    fn rejects_a_lost_or_foreign_authority_key() {
        let directory = tempfile::tempdir().unwrap();
        ensure(directory.path(), TODAY);
        let again =
            || ServerCertificates::ensure(directory.path(), &names(&[]), &fixed_day(TODAY)).map(|_| ());
        let key = directory.path().join("ca.key");
        fs::copy(directory.path().join("admin.key"), &key).unwrap();
        assert!(matches!(again(), Err(CertificateError::AuthorityUnfit { .. })));
        fs::write(&key, "nonsense").unwrap();
        assert!(matches!(again(), Err(CertificateError::Key { .. })));
        fs::remove_file(&key).unwrap();
        assert!(matches!(again(), Err(CertificateError::KeyMissing { .. })));
        assert!(!key.exists());
    }

    #[test]
    fn concurrent_starts_agree_on_the_certificates() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let made: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| ensure(path, TODAY))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for other in &made[1..] {
            assert_eq!(other.authority, made[0].authority);
            assert_eq!(other.signing_key, made[0].signing_key);
            assert!(other.server == made[0].server && other.admin == made[0].admin);
        }
    }
}
