//! What controllers and scheduler weigh, beyond the API server.
//!
//! Promises: two servers are started on the same objects, one with controllers and scheduler and one without, and no client
//! simulates nodes meanwhile; both have read all objects, and rest, when their memory is looked at.

use std::{path::Path, time::Duration};

use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{available, make_deployments, nodes_are_ready, session, until};
use crate::{
    BenchError,
    api::{
        client::ApiRequest,
        load::Session,
        server::{Server, ServerOptions},
    },
    choices::Backend,
    flags::ApiOptions,
};

/// How many pods there are.
const PODS: u32 = 10_000;
/// How many of them each deployment has, and each node.
const EACH: usize = 100;
/// How long it is looked whether a server rests, and how much CPU time it may spend meanwhile.
const LOOK: Duration = Duration::from_secs(2);
const RESTING: Duration = Duration::from_millis(40);
/// How long it may take until it does. Nodes without an agent are missed after 40 s, and that is work.
const PATIENCE: Duration = Duration::from_secs(35);

/// Resident memory with so many pods.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MemoryRow {
    pub(super) pods: usize,
    /// Of the API server alone.
    pub(super) alone_bytes: u64,
    /// Of all in one.
    pub(super) together_bytes: u64,
}

/// Makes pods, and starts servers on them.
pub(super) async fn weigh(options: &ApiOptions, directory: &Path) -> Result<MemoryRow, BenchError> {
    // What is started again has to remember.
    let options = &ApiOptions {
        storage: Backend::File,
        ..options.clone()
    };
    let pods = options.effort.of(PODS) as usize;
    fill(options, directory, pods).await?;
    Ok(MemoryRow {
        pods,
        alone_bytes: at_rest(&ServerOptions::alone(options)?, options, directory).await?,
        together_bytes: at_rest(&ServerOptions::with(options, [])?, options, directory).await?,
    })
}

async fn fill(options: &ApiOptions, directory: &Path, pods: usize) -> Result<(), BenchError> {
    let nodes = pods.div_ceil(EACH);
    let server = ServerOptions::with(options, [format!("--simulated-nodes={nodes}")])?
        .start(directory)
        .await?;
    let session = session(&server, options);
    until(async || nodes_are_ready(&session, nodes).await).await?;
    make_deployments(&session, pods.div_ceil(EACH), EACH).await?;
    until(async || Ok(available(&session).await? >= pods)).await?;
    server.stop().await
}

async fn at_rest(
    server_options: &ServerOptions,
    options: &ApiOptions,
    directory: &Path,
) -> Result<u64, BenchError> {
    let server = server_options.start(directory).await?;
    let session = session(&server, options);
    for resource in [
        "api/v1/pods",
        "api/v1/nodes",
        "api/v1/events",
        "apis/apps/v1/replicasets",
    ] {
        // The server reads a kind when a client asks for it: with and without controllers.
        session
            .ask(ApiRequest::get(format!("/{resource}?limit=1")), &[200])
            .await?;
    }
    rest(&server, &session).await?;
    let bytes = server.resident()?;
    server.stop().await?;
    Ok(bytes)
}

async fn rest(server: &Server, session: &Session<'_>) -> Result<(), BenchError> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let before = session.meter.read()?;
        sleep(LOOK).await;
        if session.meter.read()?.since(before).server <= RESTING {
            return Ok(());
        }
    }
    Err(format!("the server {} finds no rest", server.pid()).into())
}
