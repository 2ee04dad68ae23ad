//! `k3 storage`: starts and monitors the database that servers share.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use k3_storage::backend::StorageConfig;
use kubecontroller::manager::Stop;
use tokio::time::sleep;

use super::{
    process,
    start::{RuntimeFlags, StorageFlags},
    stores::shared_backends,
};
use crate::{
    command_error::CommandError,
    data_dir::data_dir,
    databases::{DatabaseFlags, with_database},
    log::LogFlags,
    prose::or,
    server,
    signals::StopSignals,
};

const EXAMPLES: &str = "\
Examples:
  k3 storage --storage mysql --mysql-url mysql://root@127.0.0.1/k3
      starts the database if it does not run, monitors it, and logs when it becomes unavailable; `k3 start`,
      `k3 apiserver` and others use it

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Interval of health checks.
const PERIOD: Duration = Duration::from_secs(5);

/// Start and monitor the database of a cluster: an etcd or a MySQL that servers share.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct StorageProcessFlags {
    /// Data directory [default: /var/lib/k3 for root, else `$XDG_DATA_HOME/k3` or `~/.local/share/k3`]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    #[command(flatten)]
    log: LogFlags,

    #[command(flatten)]
    storage: StorageFlags,

    #[command(flatten)]
    databases: DatabaseFlags,

    #[command(flatten)]
    runtime: RuntimeFlags,
}

pub(super) fn run(flags: &StorageProcessFlags) -> Result<(), CommandError> {
    process::init(&flags.log)?;
    let data_dir = data_dir(flags.data_dir.as_deref())?;
    let storage = flags.storage.config(&data_dir)?;
    if !flags.storage.is_shared() {
        return Err(CommandError::usage(
            "this store is embedded and needs no database process",
            format!(
                "use {}",
                or(shared_backends().map(|backend| format!("--storage {}", backend.name())))
            ),
        ));
    }
    let wait = flags.storage.wait();
    let databases = flags.databases.settings(data_dir, flags.runtime.wanted()?);
    process::block_on(async {
        let work = async |storage, signals: &mut StopSignals| look_after(storage, wait, signals).await;
        with_database(&databases, storage, &mut process::signals()?, work).await
    })
}

/// Logs changes of the store's health until a signal.
async fn look_after(
    storage: Box<dyn StorageConfig>,
    wait: Duration,
    signals: &mut StopSignals,
) -> Result<(), CommandError> {
    let stop = Stop::new();
    let watching = async {
        let opening = Box::pin(server::open_store(&*storage, wait));
        let Some(store) = stop.unless_stopped(opening).await else {
            return Ok(());
        };
        let store = store?;
        let mut was_well = None;
        let look = async {
            loop {
                let health = store.health().await;
                if was_well != Some(health.is_ok()) {
                    match &health {
                        Ok(health) => tracing::info!("store is available ({})", health.backend),
                        Err(error) => tracing::error!(%error, "store is unavailable"),
                    }
                }
                was_well = Some(health.is_ok());
                sleep(PERIOD).await;
            }
        };
        stop.unless_stopped::<()>(look).await;
        store.close().await;
        Ok(())
    };
    process::run_until_signal(stop.clone(), watching, signals).await
}
