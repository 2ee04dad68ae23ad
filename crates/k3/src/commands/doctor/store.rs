//! Check of the store.

use std::time::Duration;

use k3_client::with_causes;
use k3_storage::{OpenError, backend::StorageConfig};

use super::{super::stores::StoreFlags, check::DoctorCheck, server::ServerState};

const STORE: &str = "store";
/// Timeout for opening the store.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) async fn check(flags: &StoreFlags, running: &ServerState) -> DoctorCheck {
    let config = match flags.config() {
        Ok(config) => config,
        Err(failure) => return DoctorCheck::fail(STORE, failure.to_string(), "see the flags"),
    };
    if config.directory().is_some_and(|directory| !directory.is_dir()) {
        return DoctorCheck::ok(STORE, "none yet; the first `k3 start` creates it");
    }
    match tokio::time::timeout(TIMEOUT, look(&*config)).await {
        Ok(Ok(found)) => DoctorCheck::ok(STORE, found),
        Ok(Err(OpenError::InUse { holder, .. })) if running.is_running() => {
            DoctorCheck::ok(STORE, format!("in use by the running server ({holder})"))
        }
        Ok(Err(OpenError::InUse { holder, .. })) => DoctorCheck::fail(
            STORE,
            format!("in use by {holder}, which does not answer as a server"),
            "check that process, and stop it if it hangs",
        ),
        Ok(Err(error)) => {
            let advice =
                "check that it is reachable; restore a damaged store with `k3 snapshot restore --force FILE`";
            DoctorCheck::fail(STORE, with_causes(&error), advice)
        }
        Err(_) => DoctorCheck::fail(
            STORE,
            format!("no answer within {} s", TIMEOUT.as_secs()),
            "check the load of the database and of the disk",
        ),
    }
}

async fn look(config: &dyn StorageConfig) -> Result<String, OpenError> {
    let store = config.open().await?;
    let health = store.health().await;
    store.close().await;
    let health = health?;
    Ok(format!(
        "{} answers, at revision {}",
        health.backend, health.revision
    ))
}
