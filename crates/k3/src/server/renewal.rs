//! Renewal of certificates and keys while the server runs.
//!
//! Replaced files (`k3 certs rotate`) are used within seconds, without a restart or a broken connection. Certificates are checked
//! every hour and when the clock jumps, and renewed before they expire. With a shared store the other servers follow within
//! seconds, and no server uses new keys before they are in the store.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use k3_apiserver::Server;
use k3_controllers::{CaBundle, CertificateSigner};
use k3_storage::{Revision, Store};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use kubecontroller::Clock;
use parking_lot::RwLock;
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    components,
    renewal_timer::RenewalTimer,
    shared_keys::{self, ConflictPolicy, SyncOutcome},
};
use crate::{
    certificates::{GENERATION, ServerCertificates, SubjectAltNames},
    client_factory::ClientFactory,
    command_error::CommandError,
    kubeconfig, secret_file,
    tls::ServerTls,
};

/// Interval between checks for replaced files.
const PAUSE: Duration = Duration::from_secs(5);
/// The interval with a shared store, in which other servers must trust replaced keys soon.
const SHARED_PAUSE: Duration = Duration::from_secs(1);
/// The config map with the certificate authority for pods, in every namespace.
const ROOT_CA: &str = "kube-root-ca.crt";
const AGENT: &str = concat!("k3/", env!("CARGO_PKG_VERSION"));

/// Identity of the file [`GENERATION`]: inode and modification time.
pub(super) type FileGeneration = Option<(u64, i64, i64)>;

/// The certificates in use. Clones share them.
#[derive(Clone)]
pub(super) struct CurrentCertificates(Arc<RwLock<Arc<ServerCertificates>>>);

/// Where certificates and keys are stored.
pub(super) struct CertificateSource {
    /// The directory.
    pub(super) directory: PathBuf,
    /// The generation of the last read.
    pub(super) generation: FileGeneration,
    /// The store shared with other servers, and the revision of the shared keys in it.
    pub(super) shared: Option<(Arc<dyn Store>, Revision)>,
}

/// Whether the directory of certificates changed since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirectoryState {
    Changed,
    Unchanged,
}

/// Why certificates are synchronized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncReason {
    /// To notice changes of others.
    Poll,
    /// It is time to renew certificates.
    RenewalDue,
}

/// Applies replaced certificates to everything that uses them.
pub(super) struct CertificateRenewal {
    pub(super) source: CertificateSource,
    pub(super) names: SubjectAltNames,
    /// Overrides the signing key of the directory.
    pub(super) signing_key: Option<Vec<u8>>,
    /// Copies of the admin's kubeconfig.
    pub(super) kubeconfigs: Vec<PathBuf>,
    pub(super) address: SocketAddr,
    pub(super) server: Arc<Server>,
    pub(super) tls: ServerTls,
    pub(super) current: CurrentCertificates,
    /// The authority that controllers publish.
    pub(super) published: CaBundle,
    /// The authority that the node in this process trusts.
    pub(super) node: watch::Sender<String>,
}

/// The generation of a directory of certificates.
pub(super) fn generation(directory: &Path) -> FileGeneration {
    let file = fs::metadata(directory.join(GENERATION)).ok()?;
    Some((file.ino(), file.mtime(), file.mtime_nsec()))
}

// --- CurrentCertificates ---

impl CurrentCertificates {
    pub(super) fn new(certificates: ServerCertificates) -> Self {
        CurrentCertificates(Arc::new(RwLock::new(Arc::new(certificates))))
    }

    pub(super) fn get(&self) -> Arc<ServerCertificates> {
        Arc::clone(&self.0.read())
    }

    fn set(&self, certificates: ServerCertificates) {
        *self.0.write() = Arc::new(certificates);
    }

    /// Signs approved requests with the current authority.
    pub(super) fn signer(&self) -> CertificateSigner {
        let current = self.clone();
        CertificateSigner::new(move |order| components::certificate_signer(&current.get()).sign(order))
    }
}

// --- CertificateSource ---

impl CertificateSource {
    fn pause(&self) -> Duration {
        match self.shared {
            Some(_) => SHARED_PAUSE,
            None => PAUSE,
        }
    }

    /// Synchronizes the directory with the shared keys in the store. Returns whether the directory changed.
    async fn sync_keys(&mut self, state: DirectoryState) -> Result<bool, CommandError> {
        let Some((store, last_revision)) = &mut self.shared else {
            return Ok(false);
        };
        if state == DirectoryState::Unchanged
            && shared_keys::revision(store.as_ref()).await? == Some(*last_revision)
        {
            return Ok(false);
        }
        let synced =
            shared_keys::sync_keys(store.as_ref(), &self.directory, ConflictPolicy::StoreWins).await?;
        *last_revision = synced.revision;
        if synced.outcome == SyncOutcome::Published {
            // Publish first: the other servers must trust the new keys before this one uses them.
            sleep(2 * SHARED_PAUSE).await;
        }
        Ok(synced.outcome == SyncOutcome::Adopted)
    }
}

// --- CertificateRenewal ---

impl CertificateRenewal {
    /// Checks periodically, forever.
    pub(super) async fn run(mut self) {
        let mut timer = RenewalTimer::new(Instant::now(), Clock::system().system_time());
        loop {
            sleep(self.source.pause()).await;
            let reason = if timer.is_due(Instant::now(), Clock::system().system_time()) {
                SyncReason::RenewalDue
            } else {
                SyncReason::Poll
            };
            match self.sync(reason).await {
                Ok(()) if reason == SyncReason::RenewalDue => timer.restart(Instant::now()),
                Ok(()) => {}
                Err(failure) => {
                    tracing::error!(
                        "certificate renewal failed; the current certificates stay in use: {failure}"
                    );
                    timer.retry(Instant::now());
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Applies new certificates, if there are any.
    async fn sync(&mut self, reason: SyncReason) -> Result<(), CommandError> {
        let generation = generation(&self.source.directory);
        let state = if generation == self.source.generation {
            DirectoryState::Unchanged
        } else {
            DirectoryState::Changed
        };
        let was_adopted = self.source.sync_keys(state).await?;
        if state == DirectoryState::Unchanged && !was_adopted && reason == SyncReason::Poll {
            return Ok(());
        }
        self.renew().await?;
        // Renewed shared keys are published to the other servers.
        self.source.sync_keys(DirectoryState::Changed).await?;
        self.source.generation = generation;
        Ok(())
    }

    async fn renew(&self) -> Result<(), CommandError> {
        let failed = |error| {
            CommandError::new("certificates are unusable", "check them with `k3 certs show`").caused_by(error)
        };
        let new = ServerCertificates::ensure(&self.source.directory, &self.names, &Clock::system())
            .map_err(failed)?
            .with_signing_key(self.signing_key.as_deref());
        let old = self.current.get();
        if new.is_same(&old) {
            return Ok(());
        }
        self.tls.replace(&new).map_err(failed)?;
        self.server
            .replace_keys(&new.signing_key, &new.old_signing_keys)
            .map_err(|error| {
                CommandError::new("the token signing key is unusable", "rotate it again").caused_by(error)
            })?;
        self.server
            .replace_node_client(&components::node_client(&new))
            .map_err(|error| {
                CommandError::new("the client certificate for nodes is unusable", "rotate it again")
                    .caused_by(error)
            })?;
        let text = kubeconfig::text(self.address, &new.authority, &new.admin);
        for file in &self.kubeconfigs {
            secret_file::write(file, &text).map_err(|error| {
                CommandError::new("cannot write the admin's kubeconfig", "check the disk").caused_by(error)
            })?;
        }
        let authority = new.authority.clone();
        let is_changed = authority != old.authority;
        self.current.set(new);
        if is_changed {
            self.published.set(&authority);
            self.node.send_replace(authority.clone());
            self.publish(&authority).await?;
        }
        tracing::info!("replaced certificates and keys");
        Ok(())
    }

    /// Updates the authority in existing namespaces. New namespaces get it from the root-ca-certificate-publisher-controller.
    async fn publish(&self, authority: &str) -> Result<(), CommandError> {
        let publish_error = |error| {
            let advice = "they are updated when the server is restarted";
            CommandError::new("cannot publish the certificate authority to pods", advice).caused_by(error)
        };
        let client = ClientFactory::InProcess(&self.server).master("system:k3", AGENT)?;
        let named = ListParams::default().fields(&format!("metadata.name={ROOT_CA}"));
        let maps: Api<ConfigMap> = Api::all(client.clone());
        let patch = json!({"data": {"ca.crt": authority}});
        for map in maps.list_metadata(&named).await.map_err(publish_error)? {
            let namespace = map.metadata.namespace.unwrap_or_default();
            let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
            let patched = maps
                .patch_metadata(ROOT_CA, &PatchParams::default(), &Patch::Merge(&patch))
                .await;
            match patched {
                Ok(_) => {}
                // The namespace is terminating.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(publish_error(error)),
            }
        }
        Ok(())
    }
}
