//! Informers of many pods: how fast they are synced, and what they weigh, beside kube's reflector.
//!
//! Promises: each client is a process of its own, so that none profits or suffers from another's memory; they take turns, so
//! that what else the machine does hits all of them; each has all pods before its clock stops.

mod holders;
mod report;

use std::{path::Path, process::Command};

pub(crate) use self::holders::sync;
use self::report::{InformerReport, Row};
use crate::{
    BenchError,
    api::{
        client::ApiRequest,
        load::Session,
        objects,
        operations::{make_namespace, pod_name, pods},
        server::ServerOptions,
    },
    choices::{BenchEffort, Holder},
    cpu::CpuMeter,
    directories::{data_directory, results, write},
    flags::ApiOptions,
    machine::MachineInfo,
};

/// How many pods are held.
const PODS: usize = 100_000;
const QUICK_PODS: usize = 20_000;
/// How often each client is measured; what counts is the median.
const ROUNDS: usize = 3;
/// How many pods a namespace has.
const PER_NAMESPACE: usize = 10_000;

/// Measures everything, prints it, and writes it down.
pub(crate) async fn run(options: &ApiOptions) -> Result<(), BenchError> {
    let server_options = ServerOptions::alone(options)?;
    let dir = data_directory(options.dir.as_deref())?;
    let measured = measure(&server_options, options, &dir).await;
    std::fs::remove_dir_all(&dir)?;
    let mut report = measured?;
    report.check_requirements();
    report.print();
    write(&report, &results(options.json.as_deref(), "informer.json"))
}

async fn measure(
    server_options: &ServerOptions,
    options: &ApiOptions,
    dir: &Path,
) -> Result<InformerReport, BenchError> {
    let count = match options.effort {
        BenchEffort::Quick => QUICK_PODS,
        BenchEffort::Full => PODS,
    };
    let directory = dir.join("server");
    let server = server_options.start(&directory).await?;
    let session = Session {
        endpoint: &server.endpoint,
        meter: CpuMeter::new(Some(server.pid())),
        connections: options.connections,
    };
    eprintln!("making {count} pods");
    for namespace in 0..count.div_ceil(PER_NAMESPACE) {
        make_namespace(&session, &namespace_name(namespace)).await?;
    }
    let make = |index: usize| {
        let namespace = namespace_name(index / PER_NAMESPACE);
        ApiRequest::post(pods(&namespace), &objects::pod(&pod_name(index), index))
    };
    session.prepare(count, &[201], make).await?;
    let kubeconfig = directory.join("data/admin.kubeconfig");
    let mut report = InformerReport::new(MachineInfo::find(dir)?, options, count);
    for round in 0..ROUNDS {
        for holder in Holder::ALL {
            eprintln!("measuring {}, round {}", holder.name(), round + 1);
            report.rows.push(in_own_process(holder, &kubeconfig, count)?);
        }
    }
    server.stop().await?;
    Ok(report)
}

fn namespace_name(index: usize) -> String {
    format!("k3-bench-{index}")
}

fn in_own_process(holder: Holder, kubeconfig: &Path, count: usize) -> Result<Row, BenchError> {
    let output = Command::new(std::env::current_exe()?)
        .arg("sync")
        .arg(holder.name())
        .arg(kubeconfig)
        .arg(count.to_string())
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("the process with {} failed", holder.name()).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
