//! `k3 snapshot save`: a store into a file.

use std::path::PathBuf;

use clap::Args;
use k3_storage::{Clock, Key, SystemClock, transfer};
use tokio::fs::File;

use super::{
    super::stores::{self, StoreFlags, Use},
    inspect,
};
use crate::{failure::Failure, progress, progress::Progress, secret_file::Fresh, server};

/// Write all objects of a store, as they are at one moment, to a file.
#[derive(Debug, Args)]
pub(super) struct SaveFlags {
    /// The file, which must not be there yet
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Include the private keys that servers of an etcd or MySQL share: the key of the certificate authority and the key that
    /// signs service account tokens. Whoever reads the file is then an administrator of the cluster
    #[arg(long)]
    include_keys: bool,

    #[command(flatten)]
    store: StoreFlags,
}

pub(super) async fn run(flags: &SaveFlags) -> Result<(), Failure> {
    let file = &flags.file;
    if file.exists() {
        return Err(Failure::new(
            format!("{} is there already", file.display()),
            "choose another name, or remove it: a snapshot is not overwritten",
        ));
    }
    let unwritten = |error| {
        let advice = "name a file in a folder that exists and that this user may write to";
        Failure::new("cannot write the snapshot", advice).because(error)
    };
    let config = flags.store.config()?;
    let is_shared = server::is_shared(&config);
    let store = stores::open(config, Use::Source).await?;
    let fresh = Fresh::begin(file).map_err(unwritten)?;
    let out = fresh.handle().map(File::from_std).map_err(unwritten)?;
    let mut progress = Progress::new("saved");
    let is_included = |key: &Key| flags.include_keys || !server::holds_private_keys(key);
    let saved = transfer::backup_where(is_included, &*store, out, SystemClock.now(), |moved| {
        progress.tell(moved);
    })
    .await;
    store.close().await;
    let saved = saved.map_err(|error| {
        Failure::new("no snapshot was made", "see the cause; nothing was left behind").because(error)
    })?;
    // What a disk has taken is not always what it gives back.
    let read = inspect::check(fresh.path()).await?;
    if read != saved {
        return Err(Failure::new(
            format!("{} does not hold what was written to it", file.display()),
            "see to the disk, and write to another one",
        ));
    }
    fresh.keep().map_err(unwritten)?;
    let spent = progress.end();
    print_line!(
        "{} to {}, at revision {}; read again and found whole",
        progress::line("saved", saved.moved, spent),
        file.display(),
        saved.revision
    );
    if is_shared && flags.include_keys {
        eprintln!(
            "warning: the private keys of the cluster are in the snapshot: whoever reads it is an administrator of the cluster"
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
