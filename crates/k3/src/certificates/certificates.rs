//! All that a server needs, from its directory.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use k3_apiserver::{NODE_CLIENT_USER, PublicKey};
use k3_pki::{IssueError, KeyError, KeyPair, ParseError, PemError, read_certificates};
use k3_storage::Clock;
use rustls::pki_types::CertificateDer;

use super::{
    Identity, Names, authority::Authority, directory::protect_tls_directory, identity::Purpose, rotation,
};
use crate::secret_file::{self, FileError};

/// Lock file for changes of the directory.
pub(super) const LOCK: &str = ".lock";
/// The names of certificates and of their keys, without endings.
pub(super) const SERVER: &str = "server";
pub(super) const ADMIN: &str = "admin";
pub(super) const KUBELET_CLIENT: &str = "apiserver-kubelet-client";
pub(super) const SIGNING_KEY: &str = "service-account.key";

const ADMIN_PURPOSE: Purpose<'_> = Purpose::Client {
    name: "kubernetes-admin",
    groups: &["system:masters"],
};
/// Without groups: its role allows access to nodes, and nothing at API servers.
const KUBELET_CLIENT_PURPOSE: Purpose<'_> = Purpose::Client {
    name: NODE_CLIENT_USER,
    groups: &[],
};

/// The certificates and keys of a server.
pub(crate) struct Certificates {
    /// The certificates of the authorities that are to be trusted, in PEM form: one, or two while one takes the place of the
    /// other.
    pub(crate) authority: String,
    /// The authorities whose certificates users show, in PEM form: that one, unless others are given.
    pub(crate) clients: String,
    /// What the server shows, and what is between it and the authority.
    pub(crate) server: Identity,
    /// What its first user shows.
    pub(crate) admin: Identity,
    /// What the server shows when it asks a node.
    pub(crate) kubelet_client: Identity,
    /// The key that service-account tokens are signed with: ECDSA P-256, PKCS#8 DER.
    pub(crate) signing_key: Vec<u8>,
    /// Earlier signing keys whose tokens are still accepted.
    pub(crate) old_signing_keys: Vec<PublicKey>,
    /// What signs certificates for others.
    pub(crate) issuer: Arc<Authority>,
}

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A key file holds something else.
    #[error("{} holds no key in PEM form", .path.display())]
    Key {
        path: PathBuf,
        #[source]
        source: KeyError,
    },
    /// The authority's key is missing.
    #[error("{} is missing, but the certificate beside it is there", .path.display())]
    KeyMissing { path: PathBuf },
    /// The authority's certificate is not for its key.
    #[error("{} is not the certificate for the key beside it", .path.display())]
    AuthorityUnfit { path: PathBuf },
    /// A file of public keys holds something else.
    #[error("{} holds no public keys in PEM form", .path.display())]
    PublicKeys { path: PathBuf },
    /// A file cannot be put in the place of another.
    #[error("cannot replace {}", .path.display())]
    Replace {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// There is nothing that could be replaced.
    #[error("there are no certificates in {}", .directory.display())]
    Nothing { directory: PathBuf },
    /// One authority is already taking the place of the other.
    #[error("a rotation of the authority is under way")]
    UnderWay,
    /// The clock shows a time before 1970.
    #[error("the machine's clock is not set")]
    Clock,
    /// The machine has no randomness.
    #[error("the machine gives no random bytes")]
    Random,
    /// A certificate or key could not be made.
    #[error("cannot make a certificate")]
    Make(#[from] IssueError),
    /// A key could not be made.
    #[error("cannot make a key")]
    MakeKey(#[from] KeyError),
    /// A file holds no certificate.
    #[error("cannot read a certificate")]
    Pem(#[from] PemError),
    /// A certificate or key is malformed.
    #[error("cannot read a certificate or a key")]
    Read(#[source] ParseError),
    /// TLS does not take what there is.
    #[error("the certificates cannot be used")]
    Tls(#[from] rustls::Error),
}

// --- Certificates ---

impl Certificates {
    /// The same with another key for tokens than the directory's, if there is one: tokens that the directory's signed are then those
    /// of somebody else.
    pub(crate) fn with_signing_key(mut self, key: Option<&[u8]>) -> Self {
        if let Some(key) = key {
            self.signing_key = key.to_vec();
            self.old_signing_keys.clear();
        }
        self
    }

    /// Whether there is nothing to replace.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        // Each field, so that a new one is not forgotten. The key of the issuer comes with its certificate.
        let Certificates {
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

    /// Those of `directory`, made or renewed if need be.
    pub(crate) fn ensure(
        directory: &Path,
        names: &Names,
        clock: &dyn Clock,
    ) -> Result<Self, CertificateError> {
        let now = seconds(clock)?;
        protect_tls_directory(directory)?;
        // Two servers that begin together on one directory must not each sign with a key of their own.
        let _lock = secret_file::lock(&directory.join(LOCK))?;
        Self::ensure_locked(directory, names, now)
    }

    /// The same for who has the directory's lock.
    pub(super) fn ensure_locked(directory: &Path, names: &Names, now: i64) -> Result<Self, CertificateError> {
        rotation::finish_interrupted_rotation(directory)?;
        let current = Authority::ensure(directory, now)?;
        let next = Authority::next(directory, now)?;
        let server = identity(directory, SERVER, &current, &Purpose::Server(names), now)?;
        let mut authority = current.pem().to_owned();
        if let Some(next) = &next {
            authority.push_str(next.pem());
        }
        let kubelet_client = identity(directory, KUBELET_CLIENT, &current, &KUBELET_CLIENT_PURPOSE, now)?;
        // The server believes both, so who is known to it by a certificate gets one that will outlast the change. Nodes may
        // know the old authority alone.
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

    /// New ones of a new authority, which are in last_sync alone.
    pub(crate) fn generate(names: &Names, clock: &dyn Clock) -> Result<Self, CertificateError> {
        let now = seconds(clock)?;
        let authority = Authority::generate(now)?;
        let issue = |purpose: Purpose<'_>| Identity::issue(&authority, &purpose, now);
        Ok(Self {
            server: issue(Purpose::Server(names))?,
            admin: issue(ADMIN_PURPOSE)?,
            kubelet_client: issue(KUBELET_CLIENT_PURPOSE)?,
            signing_key: KeyPair::generate()?.to_pkcs8(),
            old_signing_keys: Vec::new(),
            authority: authority.pem().to_owned(),
            clients: authority.pem().to_owned(),
            issuer: Arc::new(authority),
        })
    }

    /// The authorities that are to be trusted as TLS wants them.
    pub(crate) fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
        Ok(read_certificates(self.authority.as_bytes())?)
    }

    /// The authorities of users as TLS wants them.
    pub(crate) fn clients_der(&self) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
        Ok(read_certificates(self.clients.as_bytes())?)
    }
}

/// The time of certificates: seconds since 1970.
pub(super) fn seconds(clock: &dyn Clock) -> Result<i64, CertificateError> {
    let now = clock.now().duration_since(std::time::UNIX_EPOCH);
    now.ok()
        .and_then(|now| i64::try_from(now.as_secs()).ok())
        .ok_or(CertificateError::Clock)
}

fn identity(
    directory: &Path,
    name: &str,
    authority: &Authority,
    purpose: &Purpose<'_>,
    now: i64,
) -> Result<Identity, CertificateError> {
    let certificate_path = directory.join(format!("{name}.crt"));
    let key_path = directory.join(format!("{name}.key"));
    let written = (
        secret_file::read(&certificate_path)?,
        secret_file::read(&key_path)?,
    );
    if let (Some(certificate), Some(key)) = written {
        let identity = Identity { certificate, key };
        match identity.flaw(authority, purpose, now) {
            None => return Ok(identity),
            Some(flaw) => tracing::info!("replacing certificate {name}.crt: {flaw}"),
        }
    }
    let identity = Identity::issue(authority, purpose, now)?;
    // A crash in between leaves a key of another certificate, which is seen and repaired at the next start.
    secret_file::write(&key_path, &identity.key)?;
    secret_file::write(&certificate_path, &identity.certificate)?;
    Ok(identity)
}

/// The signing key of service account tokens. It is replaced only on request: existing tokens depend on it.
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
    use std::{
        fs, thread,
        time::{Duration, SystemTime, UNIX_EPOCH},
    };

    use k3_pki::Certificate;

    use super::{super::identity::DAY, *};

    /// A clock that stands still.
    #[derive(Debug)]
    struct Day(u64);

    impl Clock for Day {
        fn now(&self) -> SystemTime {
            UNIX_EPOCH + Duration::from_hours(24 * self.0)
        }
    }

    const TODAY: u64 = 20_000;

    fn names(extra: &[&str]) -> Names {
        let mut names = Names::new([]);
        names.extend(extra.iter().map(|name| name.parse().unwrap()));
        names
    }

    fn ensure(directory: &Path, day: u64) -> Certificates {
        Certificates::ensure(directory, &names(&[]), &Day(day)).unwrap()
    }

    fn read(identity: &Identity) -> Certificate {
        Certificate::from_der(&identity.der().unwrap().0).unwrap()
    }

    #[test]
    fn a_second_start_finds_everything_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let first = ensure(directory.path(), TODAY);
        let second = ensure(directory.path(), TODAY + 1);
        assert!(first.is_same(&second));
        assert_eq!(first.authority, second.authority);
        assert!(first.server == second.server && first.admin == second.admin);
        assert_eq!(first.signing_key, second.signing_key);
    }

    #[test]
    fn tls_takes_what_is_made() {
        let directory = tempfile::tempdir().unwrap();
        assert!(crate::tls::Tls::new(&ensure(directory.path(), TODAY)).is_ok());
        let fresh = Certificates::generate(&names(&[]), &Day(TODAY)).unwrap();
        assert!(crate::tls::Tls::new(&fresh).is_ok());
    }

    #[test]
    fn certificates_live_a_year_and_are_renewed_a_quarter_before_its_end() {
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
    fn the_authority_is_renewed_with_its_key_so_that_what_it_signed_stays_good() {
        let directory = tempfile::tempdir().unwrap();
        let seconds = |day: u64| i64::try_from(day).unwrap() * DAY;
        let late = seconds(TODAY + 9 * 365);
        let old = Authority::ensure(directory.path(), seconds(TODAY)).unwrap();
        let new = Authority::ensure(directory.path(), late).unwrap();
        assert_ne!(old.der(), new.der());
        for (issuer, verifier) in [(&old, &new), (&new, &old)] {
            let made = Identity::issue(issuer, &ADMIN_PURPOSE, late).unwrap();
            assert_eq!(made.flaw(verifier, &ADMIN_PURPOSE, late), None);
        }
    }

    #[test]
    fn other_names_make_another_serving_certificate_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let ensure =
            |extra: &[&str]| Certificates::ensure(directory.path(), &names(extra), &Day(TODAY)).unwrap();
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
    fn the_admin_may_do_all() {
        let directory = tempfile::tempdir().unwrap();
        let admin = read(&ensure(directory.path(), TODAY).admin);
        assert_eq!(admin.identity.common_name, "kubernetes-admin");
        assert_eq!(admin.identity.organizations, ["system:masters"]);
    }

    #[test]
    fn the_client_of_nodes_has_no_groups_and_that_of_older_versions_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let first = ensure(directory.path(), TODAY);
        let authority = Authority::ensure(directory.path(), i64::try_from(TODAY).unwrap() * DAY).unwrap();
        // As commit 6ea0c3a made it.
        let older = Purpose::Client {
            name: NODE_CLIENT_USER,
            groups: &["system:masters"],
        };
        let older = Identity::issue(&authority, &older, i64::try_from(TODAY).unwrap() * DAY).unwrap();
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
        // Nothing else is replaced: nodes and users that know the cluster go on.
        assert_eq!(second.authority, first.authority);
        assert!(second.server == first.server && second.admin == first.admin);
    }

    #[test]
    fn replaces_a_mismatched_key_pair() {
        let directory = tempfile::tempdir().unwrap();
        let first = ensure(directory.path(), TODAY);
        // As if the power had gone between the two files.
        fs::write(directory.path().join("server.key"), &first.admin.key).unwrap();
        let second = ensure(directory.path(), TODAY);
        assert!(second.server != first.server);
        assert!(crate::tls::Tls::new(&second).is_ok());
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
        let again = || Certificates::ensure(directory.path(), &names(&[]), &Day(TODAY)).map(|_| ());
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
    fn servers_that_start_at_once_agree() {
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
