//! `k3 snapshot save`: writes a snapshot of a store.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use k3_storage::{Key, transfer};
use kubecontroller::Clock;
use tokio::fs::File;

use super::{
    super::{
        server_flags::{ApiClient, ServerFlags},
        stores::{self, StoreFlags},
    },
    inspect,
};
use crate::{
    command_error::CommandError, progress, progress::ProgressLine, secret_file::PendingFile, server,
};

/// Write a consistent snapshot of all objects of a store to a file. A server on this machine keeps running.
#[derive(Debug, Args)]
pub(super) struct SaveFlags {
    /// Snapshot file, which must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Include the private keys that servers of an etcd or MySQL share: the key of the certificate authority and the key that
    /// signs service account tokens. Every reader of the file can then control the cluster
    #[arg(long)]
    include_keys: bool,

    #[command(flatten)]
    store: StoreFlags,
}

pub(super) async fn run(flags: &SaveFlags) -> Result<(), CommandError> {
    let file = &flags.file;
    if file.exists() {
        return Err(CommandError::new(
            format!("{} already exists", file.display()),
            "choose another name, or remove it: a snapshot is not overwritten",
        ));
    }
    let write_error = |error| {
        let advice = "name a file in an existing directory that this user may write to";
        CommandError::new("cannot write the snapshot", advice).caused_by(error)
    };
    let config = flags.store.config()?;
    let is_shared = config.backend().is_shared();
    let store = stores::open_unless_in_use(&*config).await?;
    let pending = PendingFile::create(file).map_err(write_error)?;
    let out = pending.handle().map(File::from_std).map_err(write_error)?;
    let mut progress = ProgressLine::new("saved");
    let saved = if let Some(store) = store {
        let is_included = |key: &Key| flags.include_keys || !server::holds_private_keys(key);
        let saved = transfer::backup_filtered(
            is_included,
            &*store,
            out,
            Clock::system().system_time(),
            |moved| {
                progress.update(moved);
            },
        )
        .await;
        store.close().await;
        let saved = saved.map_err(|error| {
            CommandError::new(
                "no snapshot was written",
                "correct the cause and try again; no partial file remains",
            )
            .caused_by(error)
        })?;
        // A disk may not return what it accepted: read the file back.
        if inspect::check(pending.path()).await? != saved {
            return Err(CommandError::new(
                format!("{} differs from what was written", file.display()),
                "check the disk, and write to another one",
            ));
        }
        saved
    } else {
        save_through_server(flags, out).await?;
        inspect::check(pending.path()).await?
    };
    pending.persist().map_err(write_error)?;
    let spent = progress.end();
    print_line!(
        "{} to {}, at revision {}; verified",
        progress::line("saved", saved.transferred, spent),
        file.display(),
        saved.revision
    );
    if is_shared && flags.include_keys {
        eprintln!(
            "warning: the snapshot contains the private keys of the cluster: every reader can control the cluster"
        );
        return Ok(());
    }
    let tls = flags.store.data_dir()?.join("tls");
    if tls.is_dir() {
        eprintln!(
            "certificates and private keys are not in the snapshot: back up {} too, or clients need new credentials after a loss",
            tls.display()
        );
    } else if is_shared {
        eprintln!(
            "private keys are not in the snapshot: back up the directory `tls` of a server too, or use --include-keys"
        );
    }
    Ok(())
}

/// Requests a snapshot from the server that has the store open, and copies it.
async fn save_through_server(flags: &SaveFlags, mut out: File) -> Result<(), CommandError> {
    let data_dir = flags.store.data_dir()?;
    let cluster = ApiClient::connect(&ServerFlags::new(None, Some(data_dir))).await?;
    let body = if flags.include_keys {
        server::INCLUDE_KEYS
    } else {
        ""
    };
    let answer = cluster.request_text("PUT", server::SNAPSHOT_PATH, body).await?;
    let written = PathBuf::from(answer.trim_end());
    let copied = copy(&written, &mut out).await;
    // Remove the server's copy even if copying failed.
    let removed = tokio::fs::remove_file(&written).await;
    copied.and(removed).map_err(|error| {
        CommandError::new(
            format!("failed to copy the snapshot {} of the server", written.display()),
            "run this as the user of the server, and check the space on the disk",
        )
        .caused_by(error)
    })
}

async fn copy(from: &Path, to: &mut File) -> io::Result<()> {
    let mut written = File::open(from).await?;
    tokio::io::copy(&mut written, to).await?;
    to.sync_all().await
}
