//! Stores that a command opens itself, while no server has them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use k3_storage::{Key, OpenError, Page, Prefix, ReadError, StorageConfig, Store, StoreError};

use super::start::StorageFlags;
use crate::{data_dir::default_data_dir, failure::Failure, secret_file};

/// Which store is meant: the flags are those of `k3 start`.
#[derive(Debug, Args)]
pub(super) struct StoreFlags {
    /// The data directory of the server
    /// [default: /var/lib/k3 for root, else `$XDG_DATA_HOME/k3` or `~/.local/share/k3`]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    #[command(flatten)]
    storage: StorageFlags,
}

/// Whether a store has to be there, or is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreRole {
    /// It is read: a store that is not there is a mistake.
    Source,
    /// It is filled: one that is not there is made.
    Target,
}

/// What becomes of what a store holds that is to be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExistingData {
    /// It stays, and the store is not filled.
    Keep,
    /// It is given up.
    Replace,
}

/// Whether what a store holds is replaced.
#[derive(Debug, Args)]
pub(super) struct ForceFlag {
    /// Replace what the store to be filled holds, for good. Servers that use it must be stopped before
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
    pub(super) fn data_dir(&self) -> Result<PathBuf, Failure> {
        match &self.data_dir {
            Some(directory) => Ok(directory.clone()),
            None => default_data_dir(),
        }
    }

    /// The store that the flags name.
    pub(super) fn config(&self) -> Result<StorageConfig, Failure> {
        let config = self.storage.config(&self.data_dir()?)?;
        refuse_memory(&config)?;
        Ok(config)
    }
}

/// A store in memory is gone with its server: there is nothing that another process could read or fill.
pub(super) fn refuse_memory(config: &StorageConfig) -> Result<(), Failure> {
    if matches!(config, StorageConfig::Memory) {
        return Err(Failure::usage(
            "a store in memory lives and ends with its server",
            "name one that stays: file, etcd or mysql",
        ));
    }
    Ok(())
}

/// Opens a store that is read; `None` if a server on this machine has it open.
pub(super) async fn open_unless_in_use(config: StorageConfig) -> Result<Option<Arc<dyn Store>>, Failure> {
    if let StorageConfig::File(options) = &config {
        prepare(&options.directory, StoreRole::Source)?;
    }
    match k3_storage::open(config).await {
        Ok(store) => Ok(Some(store)),
        Err(OpenError::InUse { .. }) => Ok(None),
        Err(error) => Err(cannot_open(error)),
    }
}

/// Opens a store.
pub(super) async fn open(config: StorageConfig, role: StoreRole) -> Result<Arc<dyn Store>, Failure> {
    if let StorageConfig::File(options) = &config {
        prepare(&options.directory, role)?;
    }
    k3_storage::open(config).await.map_err(cannot_open)
}

fn cannot_open(error: OpenError) -> Failure {
    match error {
        OpenError::InUse {
            directory: folder,
            holder,
        } => Failure::new(
            format!("the store in {} is in use by {holder}", folder.display()),
            "stop that server first (a SIGTERM, or `systemctl stop k3`), and start it again afterwards.\n\
             A store in etcd or MySQL can be saved and copied while servers use it; one in a directory is its server's alone",
        ),
        OpenError::InvalidSetting { .. } => {
            Failure::usage("a setting of the store makes no sense", "see --help").caused_by(error)
        }
        error => Failure::new(
            "cannot open the store",
            "check that it can be reached, and that this user may read it",
        )
        .caused_by(error),
    }
}

/// Sees that there is a directory to use.
fn prepare(directory: &Path, role: StoreRole) -> Result<(), Failure> {
    match role {
        StoreRole::Source if !directory.is_dir() => Err(Failure::new(
            format!("there is no store in {}", directory.display()),
            "name the data directory of the server that made it; the store is the directory `objects` in there",
        )),
        StoreRole::Source => Ok(()),
        StoreRole::Target => secret_file::create_directory(directory).map_err(|error| {
            Failure::new(
                "cannot make the store",
                "name a directory that this user may write to",
            )
            .caused_by(error)
        }),
    }
}

/// Sees that a store may be filled: it holds nothing, or what it holds may be given up.
pub(super) async fn ensure_empty(store: &dyn Store, existing: ExistingData) -> Result<(), Failure> {
    let Some(first) = first_key(store).await? else {
        return Ok(());
    };
    if existing == ExistingData::Keep {
        return Err(Failure::new(
            format!("the store that is to be filled is not empty: it holds {first}, among others"),
            "name an empty one; or give --force, and all that it holds is replaced for good.\n\
             Servers that use it must be stopped before",
        ));
    }
    store.discard().await.map_err(|error| {
        Failure::new(
            "cannot give up what the store holds",
            "see the cause, and try again",
        )
        .caused_by(error)
    })
}

/// A key that the store holds. What an import that did not finish has left does not count: the next one clears it.
pub(super) async fn first_key(store: &dyn Store) -> Result<Option<Key>, Failure> {
    match store.range(&Prefix::all(), Page::first(1)).await {
        Ok(range) => Ok(range.entries.into_iter().next().map(|entry| entry.key)),
        Err(ReadError::Store(StoreError::UnfinishedImport)) => Ok(None),
        Err(error) => Err(Failure::new("cannot read the store", "see the cause").caused_by(error)),
    }
}
