//! The agent is killed, repeatedly, while pods run and one more is being started.
//!
//! Promise: what is counted is what the runtime has and what the API reports, compared with both before the first crash.

use std::{collections::BTreeSet, path::Path, time::Duration};

use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{
    RuntimeDaemon,
    cluster::{Cluster, NODE, server_options},
};
use crate::{
    BenchError,
    choices::{Backend, BenchEffort, RuntimeName},
    flags::ApiOptions,
    workload::until,
};

const PODS: usize = 20;
const KILLS: u32 = 20;
/// How long statuses may be wrong after a crash: pods are looked at as soon as the node knows of them.
const PATIENCE: Duration = Duration::from_secs(30);

/// What crashes did.
#[derive(Debug, Serialize)]
pub(super) struct CrashRow {
    pub(super) runtime: &'static str,
    pub(super) pods: usize,
    pub(super) kills: u32,
    /// Containers that began again, or are others than before.
    pub(super) restarted: usize,
    /// Sandboxes and containers that no pod asked for.
    pub(super) leaked: usize,
    /// Statuses that were not what they should be.
    pub(super) wrong: usize,
}

/// Kills the server with its agent as by `kill -9`, each time at another moment of the start of a pod.
pub(super) async fn kill(
    options: &ApiOptions,
    name: RuntimeName,
    daemon: &RuntimeDaemon,
    directory: &Path,
) -> Result<CrashRow, BenchError> {
    let (pods, kills) = match options.effort {
        BenchEffort::Full => (PODS, KILLS),
        BenchEffort::Quick => (PODS / 4, KILLS / 4),
    };
    // What is started again has to remember.
    let options = &ApiOptions {
        storage: Backend::File,
        ..options.clone()
    };
    let server_options = server_options(options, name, daemon)?;
    let runtime = daemon.connect(NODE).await?;
    let there = async || -> Result<BTreeSet<String>, BenchError> {
        let sandboxes = runtime
            .list_pod_sandboxes()
            .await?
            .into_iter()
            .map(|sandbox| sandbox.id.0);
        let containers = runtime
            .list_containers()
            .await?
            .into_iter()
            .map(|container| container.id.0);
        Ok(sandboxes.chain(containers).collect())
    };
    let mut cluster = Cluster::start(&server_options, options, directory).await?;
    cluster.run_many("steady-", pods).await?;
    until(async || {
        Ok(cluster
            .container_states()
            .await?
            .values()
            .all(|state| state.is_ready))
    })
    .await?;
    let reported = cluster.container_states().await?;
    let running = there().await?;
    let mut row = CrashRow {
        runtime: name.name(),
        pods,
        kills,
        restarted: 0,
        leaked: 0,
        wrong: 0,
    };
    for kill in 0..kills {
        let new = format!("new-{kill}");
        cluster.make(&new).await?;
        sleep(Duration::from_millis(u64::from(kill) * 37 % 400)).await;
        drop(cluster);
        cluster = Cluster::start(&server_options, options, directory).await?;
        cluster.until_running(|running| running.contains(&new)).await?;
        cluster.delete(Some(&new)).await?;
        // Removals and reports get time to finish; what is wrong after that is counted.
        let start = Instant::now();
        let (now_reported, now_there) = loop {
            let now = (cluster.container_states().await?, there().await?);
            if now == (reported.clone(), running.clone()) || start.elapsed() > PATIENCE {
                break now;
            }
            sleep(Duration::from_millis(50)).await;
        };
        row.restarted += running.difference(&now_there).count();
        row.leaked += now_there.difference(&running).count();
        row.wrong += reported
            .iter()
            .filter(|(pod, reported)| now_reported.get(*pod) != Some(reported))
            .count();
        row.wrong += now_reported
            .keys()
            .filter(|pod| !reported.contains_key(*pod))
            .count();
    }
    cluster.delete(None).await?;
    until(async || Ok(there().await?.is_empty())).await?;
    cluster.server.stop().await?;
    Ok(row)
}
