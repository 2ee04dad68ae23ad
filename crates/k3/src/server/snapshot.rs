//! A snapshot of the store of a running server, for `k3 snapshot save` on the same machine.
//!
//! Only one process can open a store in a directory, so the server writes the snapshot into its data directory, readable by its
//! owner only. Only members of system:masters may request it: no role grants the path.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use k3_apiserver::Server;
use k3_client::with_causes;
use k3_storage::{
    Key, Store,
    transfer::{self, BackupError},
};
use kubecontroller::Clock;
use parking_lot::Mutex;
use tokio::{fs::File, runtime::Handle, task::block_in_place};

use super::shared_keys::holds_private_keys;
use crate::{
    command_error::CommandError,
    random,
    secret_file::{self, FileError},
};

/// The path for PUT requests; the response is the path of the file.
pub(crate) const SNAPSHOT_PATH: &str = "/debug/snapshot";
/// The request body that includes private keys.
pub(crate) const INCLUDE_KEYS: &str = "include-keys";

/// Lets the server write snapshots of its store.
pub(super) fn offer_snapshots(server: &Server, store: Arc<dyn Store>, data_dir: &Path) {
    remove_leftovers(data_dir);
    let data_dir = data_dir.to_path_buf();
    let running = Mutex::new(());
    server.add_masters_action(SNAPSHOT_PATH, move |body| {
        let Some(_guard) = running.try_lock() else {
            return Err("another snapshot is being saved; try again when it is done".to_owned());
        };
        let content = if body == INCLUDE_KEYS {
            SnapshotContent::Everything
        } else {
            SnapshotContent::WithoutPrivateKeys
        };
        let saved = block_in_place(|| Handle::current().block_on(save(&*store, &data_dir, content)));
        saved
            .map(|path| path.display().to_string())
            .map_err(|error| with_causes(&error))
    });
}

/// Which keys of the store a snapshot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SnapshotContent {
    /// All but private keys of the cluster.
    WithoutPrivateKeys,
    Everything,
}

/// Why a snapshot was not saved.
#[derive(Debug, thiserror::Error)]
enum SaveError {
    #[error("{0}")]
    Name(CommandError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Backup(#[from] BackupError),
}

/// Removes snapshots that no client has copied.
fn remove_leftovers(data_dir: &Path) {
    for entry in fs::read_dir(data_dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snapshot-") && name.ends_with(".k3") {
            // The next start tries again to remove the others.
            let _ = fs::remove_file(entry.path());
        }
    }
}

async fn save(store: &dyn Store, data_dir: &Path, content: SnapshotContent) -> Result<PathBuf, SaveError> {
    let name = random::digits::<8>().map_err(SaveError::Name)?;
    let path = data_dir.join(format!("snapshot-{name}.k3"));
    let pending = secret_file::PendingFile::create(&path)?;
    let out = pending.handle().map(File::from_std)?;
    let is_included = |key: &Key| content == SnapshotContent::Everything || !holds_private_keys(key);
    transfer::backup_filtered(is_included, store, out, Clock::system().system_time(), |_| {}).await?;
    pending.persist()?;
    Ok(path)
}
