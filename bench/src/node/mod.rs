//! The node agent on real runtimes: what it adds to what they need by themselves.
//!
//! Promises: the runtimes are real ones, started for the run; what a pod costs without k3 is measured by the same calls for the
//! same containers, on the same runtime and by turns, so that both feel the same of what else the machine does; k3 is a process
//! of its own, asked through its API.

mod bare;
mod cluster;
mod crash;
mod daemon;
mod idle;
mod report;

use std::{path::Path, sync::Arc};

use k3_test_services::TEST_IMAGE;
use rustix::mount::{UnmountFlags, unmount};
use serde_json::{Value, json};

use self::{
    bare::BareRuntime,
    cluster::{Cluster, NODE, server_options},
    daemon::RuntimeDaemon,
    report::{NodeReport, RateRow, StartRow},
};
use crate::{
    BenchError,
    choices::{BenchEffort, NodePart, RuntimeName},
    cpu::CpuMeter,
    directories::{data_directory, results, write},
    flags::{ApiOptions, NodeOptions},
    latency::Latencies,
    machine::MachineInfo,
    workload::until,
};

/// How many pods are started one after the other.
const ONE_BY_ONE: u32 = 40;
/// How many are started all at once, and how often.
const AT_ONCE: usize = 100;
const ROUNDS: usize = 3;
/// How many at a time a runtime by itself is asked for: which of it is best depends on the machine.
const PARALLEL: [usize; 3] = [4, 8, 16];

/// Measures everything, prints it, and writes it down.
pub(crate) async fn run(options: &NodeOptions) -> Result<(), BenchError> {
    let dir = data_directory(options.api.dir.as_deref())?;
    let measured = measure(options, &dir).await;
    let removed = remove(&dir);
    let mut report = measured?;
    removed?;
    report.check_requirements();
    report.print();
    write(&report, &results(options.api.json.as_deref(), "node.json"))
}

/// Removes a directory. An agent that was killed has left volumes of memory mounted in it.
fn remove(dir: &Path) -> Result<(), BenchError> {
    let dir = dir.canonicalize()?;
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    let mount_points = table.lines().filter_map(|line| line.split(' ').nth(4));
    for mount_point in mount_points.filter(|mount_point| Path::new(mount_point).starts_with(&dir)) {
        unmount(mount_point, UnmountFlags::DETACH)?;
    }
    Ok(std::fs::remove_dir_all(&dir)?)
}

async fn measure(options: &NodeOptions, dir: &Path) -> Result<NodeReport, BenchError> {
    let mut report = NodeReport::new(MachineInfo::find(dir)?);
    let api = &options.api;
    for &name in &options.runtimes {
        let daemon = RuntimeDaemon::start(name)?;
        let dir = dir.join(name.name());
        for &part in &options.parts {
            say(name, part)?;
            let directory = dir.join(part.name());
            match part {
                NodePart::Start => report
                    .starts
                    .push(one_by_one(api, name, &daemon, &directory).await?),
                NodePart::Rate => report
                    .rates
                    .push(all_at_once(api, name, &daemon, &directory).await?),
                NodePart::Idle => report
                    .idle
                    .push(idle::measure(api, name, &daemon, &directory).await?),
                NodePart::Crash => report
                    .crashes
                    .push(crash::kill(api, name, &daemon, &directory).await?),
            }
        }
    }
    Ok(report)
}

/// Reports progress, and what else the machine does.
fn say(name: RuntimeName, part: NodePart) -> Result<(), BenchError> {
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default();
    eprintln!("measuring {} on {}; the load is {load}", part.name(), name.name());
    Ok(())
}

/// Pods one after the other, by turns without k3 and with it.
async fn one_by_one(
    options: &ApiOptions,
    name: RuntimeName,
    daemon: &RuntimeDaemon,
    directory: &Path,
) -> Result<StartRow, BenchError> {
    let bare = BareRuntime::new(daemon, &directory.join("bare")).await?;
    let mut cluster = Cluster::start(
        &server_options(options, name, daemon)?,
        options,
        &directory.join("k3"),
    )
    .await?;
    let pods = options.effort.of(ONE_BY_ONE);
    let mut without = Latencies::default();
    let mut with = Latencies::default();
    // The first ones bring what all later ones use.
    bare.start().await?;
    cluster.run("first").await?;
    for index in 0..pods {
        without.add(bare.start().await?);
        with.add(cluster.run(&format!("pod-{index}")).await?);
    }
    bare.clear().await?;
    clear(&cluster, daemon).await?;
    cluster.server.stop().await?;
    Ok(StartRow {
        runtime: name.name(),
        pods: pods as usize,
        bare: without.percentiles(),
        k3: with.percentiles(),
    })
}

/// Pods all at once: what the runtime can do by itself, however it is asked, and what it does for k3. The best of each counts.
async fn all_at_once(
    options: &ApiOptions,
    name: RuntimeName,
    daemon: &RuntimeDaemon,
    directory: &Path,
) -> Result<RateRow, BenchError> {
    let (pods, rounds) = match options.effort {
        BenchEffort::Full => (AT_ONCE, ROUNDS),
        BenchEffort::Quick => (AT_ONCE / 5, 1),
    };
    let bare = Arc::new(BareRuntime::new(daemon, &directory.join("bare")).await?);
    let mut cluster = Cluster::start(
        &server_options(options, name, daemon)?,
        options,
        &directory.join("k3"),
    )
    .await?;
    let mut row = RateRow {
        runtime: name.name(),
        pods,
        bare_per_second: 0.0,
        bare_at_once: 0,
        k3_per_second: 0.0,
        bare_daemon_cpu: 0.0,
        k3_daemon_cpu: 0.0,
        k3_cpu: 0.0,
    };
    let daemon_cpu = CpuMeter::new(daemon.pid());
    let own_cpu = CpuMeter::new(Some(cluster.server.pid()));
    let count = u32::try_from(pods)?;
    let each = |meter: CpuMeter, before| -> Result<f64, BenchError> {
        Ok((meter.read()?.since(before).server / count).as_secs_f64())
    };
    for round in 0..rounds {
        // The first round tells which way is the best; by that one the others are by turns with k3.
        let ways = if round == 0 {
            PARALLEL.to_vec()
        } else {
            vec![row.bare_at_once]
        };
        for at_once in ways {
            let before = daemon_cpu.read()?;
            let found = f64::from(count) / bare.start_many(pods, at_once).await?.as_secs_f64();
            eprintln!("{found:.2} pods/s by the runtime itself, {at_once} at a time");
            if found > row.bare_per_second {
                (row.bare_per_second, row.bare_at_once) = (found, at_once);
                row.bare_daemon_cpu = each(daemon_cpu, before)?;
            }
            bare.clear().await?;
        }
        let before = daemon_cpu.read()?;
        let own_before = own_cpu.read()?;
        let took = cluster.run_many(&format!("round-{round}-"), pods).await?;
        let found = f64::from(count) / took.as_secs_f64();
        eprintln!("{found:.2} pods/s by k3");
        if found > row.k3_per_second {
            row.k3_per_second = found;
            row.k3_daemon_cpu = each(daemon_cpu, before)?;
            row.k3_cpu = each(own_cpu, own_before)?;
        }
        clear(&cluster, daemon).await?;
    }
    cluster.server.stop().await?;
    Ok(row)
}

/// Deletes all pods, and waits until nothing of them is left.
async fn clear(cluster: &Cluster<'_>, daemon: &RuntimeDaemon) -> Result<(), BenchError> {
    let runtime = daemon.connect(NODE).await?;
    cluster.delete(None).await?;
    until(async || Ok(runtime.list_pod_sandboxes().await?.is_empty())).await
}

/// A pod that does nothing.
fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main",
                "image": TEST_IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "command": ["sleep", "100000"],
            }],
        },
    })
}
