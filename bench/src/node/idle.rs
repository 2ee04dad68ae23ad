//! What an agent costs that has nothing to do: a server with a node and pods that run, beside one without a node that has as
//! many pods, which wait for ever.

use std::{path::Path, time::Duration};

use serde::Serialize;
use tokio::time::sleep;

use super::{
    RuntimeDaemon,
    cluster::{Cluster, server_options},
    pod,
};
use crate::{
    BenchError,
    api::{
        client::ApiRequest,
        operations::{make_namespace, pods},
        server::{Server, ServerOptions},
    },
    choices::{BenchEffort, RuntimeName},
    cpu::CpuMeter,
    flags::ApiOptions,
    table::mebibytes,
    workload::session,
};

const PODS: usize = 50;
/// How long nothing happens before it is measured, and how long it is measured.
const QUIET: Duration = Duration::from_mins(1);

/// Two servers at rest.
#[derive(Clone, Debug, Serialize)]
pub(super) struct IdleRow {
    pub(super) runtime: &'static str,
    pub(super) pods: usize,
    pub(super) alone: IdleCost,
    pub(super) with_node: IdleCost,
}

/// What a server at rest takes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct IdleCost {
    pub(super) resident_bytes: u64,
    /// CPU time, in percent of one core.
    pub(super) cpu_percent: f64,
}

/// Measures a server without a node, and then one with.
pub(super) async fn measure(
    options: &ApiOptions,
    name: RuntimeName,
    daemon: &RuntimeDaemon,
    directory: &Path,
) -> Result<IdleRow, BenchError> {
    let (count, quiet) = match options.effort {
        BenchEffort::Full => (PODS, QUIET),
        BenchEffort::Quick => (PODS / 5, QUIET / 6),
    };
    let server = ServerOptions::with(options, [])?
        .start(&directory.join("alone"))
        .await?;
    make_namespace(&session(&server, options), "waiting").await?;
    let make = |index: usize| {
        let mut pod = pod(&format!("waiting-{index}"));
        pod["spec"]["schedulingGates"] = serde_json::json!([{"name": "k3-bench/never"}]);
        ApiRequest::post(pods("waiting"), &pod)
    };
    session(&server, options).prepare(count, &[201], make).await?;
    let alone = at_rest(&server, quiet).await?;
    server.stop().await?;

    let server_options = server_options(options, name, daemon)?;
    let mut cluster = Cluster::start(&server_options, options, &directory.join("with-node")).await?;
    cluster.run_many("idle-", count).await?;
    let with_node = at_rest(&cluster.server, quiet).await?;
    super::clear(&cluster, daemon).await?;
    cluster.server.stop().await?;
    Ok(IdleRow {
        runtime: name.name(),
        pods: count,
        alone,
        with_node,
    })
}

async fn at_rest(server: &Server, quiet: Duration) -> Result<IdleCost, BenchError> {
    sleep(quiet).await;
    let meter = CpuMeter::new(Some(server.pid()));
    let before = meter.read()?;
    sleep(quiet).await;
    let spent = meter.read()?.since(before).server;
    let cost = IdleCost {
        resident_bytes: server.resident()?,
        cpu_percent: 100.0 * spent.as_secs_f64() / quiet.as_secs_f64(),
    };
    eprintln!(
        "{:.1} MiB, {:.2} % of a core at rest",
        mebibytes(cost.resident_bytes),
        cost.cpu_percent
    );
    Ok(cost)
}
