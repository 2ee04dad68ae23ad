//! Stores that commands open without a server.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use k3_storage::{
    Key, OpenError, Page, Prefix, ReadError, Store, StoreError,
    backend::{BACKENDS, StorageBackend, StorageConfig},
};

use super::start::StorageFlags;
use crate::{command_error::CommandError, data_dir::default_data_dir, prose::or, secret_file};

/// Flags that select a store, as in `k3 start`.
#[derive(Debug, Args)]
pub(super) struct StoreFlags {
    /// Data directory of the server
    /// [default: /var/lib/k3 for root, else `$XDG_DATA_HOME/k3` or `~/.local/share/k3`]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    #[command(flatten)]
    storage: StorageFlags,
}

/// Whether a store must exist or is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreRole {
    /// The store is read, and must exist.
    Source,
    /// The store is written, and created if missing.
    Target,
}

/// The treatment of existing data in a target store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExistingData {
    /// Keep the data and fail.
    Keep,
    /// Delete the data.
    Replace,
}

#[derive(Debug, Args)]
pub(super) struct ForceFlag {
    /// Delete the existing data of the target store. Servers that use it must be stopped first
    #[arg(long)]
    force: bool,
}

// --- ForceFlag ---

impl ForceFlag {
    pub(super) fn existing_data(&self) -> ExistingData {
        if self.force {
            ExistingData::Replace
        } else {
            ExistingData::Keep
        }
    }
}

// --- StoreFlags ---

impl StoreFlags {
    /// The data directory.
    pub(super) fn data_dir(&self) -> Result<PathBuf, CommandError> {
        match &self.data_dir {
            Some(directory) => Ok(directory.clone()),
            None => default_data_dir(),
        }
    }

    pub(super) fn config(&self) -> Result<Box<dyn StorageConfig>, CommandError> {
        let config = self.storage.config(&self.data_dir()?)?;
        require_persistent(config.backend())?;
        Ok(config)
    }
}

/// Rejects a backend whose stores exist only in their server's process.
pub(super) fn require_persistent(backend: &dyn StorageBackend) -> Result<(), CommandError> {
    if backend.is_persistent() {
        return Ok(());
    }
    let others = BACKENDS.iter().filter(|backend| backend.is_persistent());
    Err(CommandError::usage(
        format!(
            "a store in {} exists only in its server's process",
            backend.title()
        ),
        format!("use {}", or(others.map(|backend| backend.name()))),
    ))
}

/// Opens a store for reading; `None` if a server on this machine uses it.
pub(super) async fn open_unless_in_use(
    config: &dyn StorageConfig,
) -> Result<Option<Arc<dyn Store>>, CommandError> {
    if let Some(directory) = config.directory() {
        prepare(directory, StoreRole::Source)?;
    }
    match config.open().await {
        Ok(store) => Ok(Some(store)),
        Err(OpenError::InUse { .. }) => Ok(None),
        Err(error) => Err(cannot_open(error)),
    }
}

/// Opens a store.
pub(super) async fn open(
    config: &dyn StorageConfig,
    role: StoreRole,
) -> Result<Arc<dyn Store>, CommandError> {
    if let Some(directory) = config.directory() {
        prepare(directory, role)?;
    }
    config.open().await.map_err(cannot_open)
}

/// The backends whose stores several servers may use at the same time.
pub(super) fn shared_backends() -> impl Iterator<Item = &'static dyn StorageBackend> {
    BACKENDS.iter().copied().filter(|backend| backend.is_shared())
}

fn cannot_open(error: OpenError) -> CommandError {
    match error {
        OpenError::InUse { directory, holder } => CommandError::new(
            format!("the store in {} is in use by {holder}", directory.display()),
            format!(
                "stop that server first (a SIGTERM, or `systemctl stop k3`), and start it again afterwards.\n\
                 A store in {} can be saved and copied while servers use it; one in a directory can be used only by its server",
                or(shared_backends().map(StorageBackend::title))
            ),
        ),
        OpenError::InvalidSetting { .. } => {
            CommandError::usage("a store setting is invalid", "see --help").caused_by(error)
        }
        error => CommandError::new(
            "cannot open the store",
            "check that it can be reached, and that this user may read it",
        )
        .caused_by(error),
    }
}

/// Checks that the directory exists, or creates it.
fn prepare(directory: &Path, role: StoreRole) -> Result<(), CommandError> {
    match role {
        StoreRole::Source if !directory.is_dir() => Err(CommandError::new(
            format!("there is no store in {}", directory.display()),
            "name the data directory of its server; the store is the directory `objects` in it",
        )),
        StoreRole::Source => Ok(()),
        StoreRole::Target => secret_file::create_directory(directory).map_err(|error| {
            CommandError::new(
                "cannot create the store",
                "name a directory that this user may write to",
            )
            .caused_by(error)
        }),
    }
}

/// Ensures that the target store is empty, deleting its data with --force.
pub(super) async fn ensure_empty(store: &dyn Store, existing: ExistingData) -> Result<(), CommandError> {
    let Some(first) = first_key(store).await? else {
        return Ok(());
    };
    if existing == ExistingData::Keep {
        return Err(CommandError::new(
            format!("the target store is not empty: it contains {first}, among others"),
            "name an empty one; or give --force, and all that it holds is replaced for good.\n\
             Servers that use it must be stopped before",
        ));
    }
    store.discard().await.map_err(|error| {
        CommandError::new(
            "cannot delete the data of the store",
            "correct the cause, and try again",
        )
        .caused_by(error)
    })
}

/// The first key of the store. Leftovers of an unfinished import do not count: the next import deletes them.
pub(super) async fn first_key(store: &dyn Store) -> Result<Option<Key>, CommandError> {
    match store.range(&Prefix::all(), Page::first(1)).await {
        Ok(range) => Ok(range.entries.into_iter().next().map(|entry| entry.key)),
        Err(ReadError::Store(StoreError::UnfinishedImport)) => Ok(None),
        Err(error) => Err(CommandError::new("cannot read the store", "see the cause").caused_by(error)),
    }
}
