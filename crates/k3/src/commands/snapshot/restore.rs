//! `k3 snapshot restore`: restores a snapshot into a store.

use std::path::PathBuf;

use clap::Args;
use k3_storage::transfer;
use kubecontroller::Clock;

use super::{
    super::stores::{self, ForceFlag, StoreFlags, StoreRole},
    inspect,
};
use crate::{command_error::CommandError, progress, progress::ProgressLine, server};

/// Restore a snapshot into a store.
#[derive(Debug, Args)]
pub(super) struct RestoreFlags {
    /// Snapshot file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    force: ForceFlag,

    #[command(flatten)]
    store: StoreFlags,
}

pub(super) async fn run(flags: &RestoreFlags) -> Result<(), CommandError> {
    let config = flags.store.config()?;
    let is_shared = config.backend().is_shared();
    // Verify the file before the store is changed.
    inspect::check(&flags.file).await?;
    let input = inspect::open(&flags.file).await?;
    let store = stores::open(&*config, StoreRole::Target).await?;
    let mut progress = ProgressLine::new("restored");
    let work = async {
        stores::ensure_empty(&*store, flags.force.existing_data()).await?;
        let restored = transfer::restore(input, &*store, |moved| progress.update(moved))
            .await
            .map_err(|error| {
                let advice = "the store stays unusable until a snapshot is restored into it: correct the cause, and try again";
                CommandError::new("the snapshot was not restored", advice).caused_by(error)
            })?;
        let again = inspect::open(&flags.file).await?;
        let expired = transfer::compare(again, &*store, restored.revision, &Clock::system())
            .await
            .map_err(|error| {
                let advice = "do not use the store; restore into another one";
                CommandError::new("the restored store differs from the snapshot", advice).caused_by(error)
            })?;
        let has_keys = server::has_private_keys(&*store).await?;
        Ok::<_, CommandError>((restored, expired, has_keys))
    };
    let outcome = work.await;
    store.close().await;
    let (restored, expired, has_keys) = outcome?;
    let spent = progress.end();
    print_line!(
        "{}, now at revision {}; verified",
        progress::line("restored", restored.backup.transferred, spent),
        restored.revision
    );
    if expired > 0 {
        print_line!("{expired} of them have expired");
    }
    if is_shared && !has_keys {
        print_line!(
            "the snapshot has no private keys: the first server that starts adds those of its directory `tls` to the store.\n\
             If that directory is empty, the server creates a new certificate authority and a new signing key for tokens: users\n\
             need the new admin.kubeconfig, nodes have to join again, and service account tokens are issued again"
        );
    }
    Ok(())
}
