//! The commands of k3, run as a user runs them: how long one waits for them, and how large the program is.
//!
//! Promises: every run is a process of its own, timed from its start to its end; what moves between stores is checked by k3 itself
//! before it reports that it is done.

mod report;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use tokio::time::Instant;

use self::report::{CommandReport, CommandRow, MigrateRow};
use crate::{
    BenchError,
    api::{
        client::ApiRequest,
        objects,
        operations::{config_map_name, config_maps, make_namespace},
        server::ServerOptions,
    },
    choices::{Backend, BenchEffort},
    directories::{data_directory, results, write},
    flags::ApiOptions,
    latency::Latencies,
    machine::MachineInfo,
    storage::backend::Service,
    workload::{available, make_deployments, nodes_are_ready, session, until},
};

/// How often a command is run.
const RUNS: usize = 20;
/// How many pods there are to be shown, and how many of them each deployment has, and each node.
const PODS: u32 = 5_000;
const EACH: usize = 100;
/// How many objects are moved.
const OBJECTS: u32 = 50_000;

/// Measures everything, prints it, and writes it down.
pub(crate) async fn run(options: &ApiOptions) -> Result<(), BenchError> {
    let dir = data_directory(options.dir.as_deref())?;
    let measured = measure(options, &dir).await;
    fs::remove_dir_all(&dir)?;
    let mut report = measured?;
    report.check_requirements();
    report.print();
    write(&report, &results(options.json.as_deref(), "command.json"))
}

async fn measure(options: &ApiOptions, dir: &Path) -> Result<CommandReport, BenchError> {
    // What is moved has to be somewhere.
    let options = &ApiOptions {
        storage: Backend::File,
        ..options.clone()
    };
    let binary = ServerOptions::alone(options)?.binary;
    let mut report = CommandReport::new(MachineInfo::find(dir)?, fs::metadata(&binary)?.len());
    let runs = match options.effort {
        BenchEffort::Full => RUNS,
        BenchEffort::Quick => RUNS / 4,
    };
    eprintln!("test environments are made");
    let mut test_env = || again(&binary, &["test-env", "--", "true"], dir);
    report
        .commands
        .push(repeat("test-env -- true", runs, &mut test_env)?);
    eprintln!("pods are shown");
    report.commands.push(show_pods(options, runs, dir).await?);
    eprintln!("objects are moved");
    let (source, objects) = fill(options, &dir.join("source")).await?;
    for backend in [Backend::Etcd, Backend::Mysql] {
        report
            .migrations
            .push(migrate(&binary, &source, objects, backend, dir)?);
    }
    Ok(report)
}

/// Runs something so many times, once it has been run before: what it reads is in memory then.
fn repeat(
    name: &'static str,
    runs: usize,
    run: &mut dyn FnMut() -> Result<Duration, BenchError>,
) -> Result<CommandRow, BenchError> {
    run()?;
    let mut latencies = Latencies::default();
    for _ in 0..runs {
        latencies.add(run()?);
    }
    Ok(CommandRow {
        name,
        runs,
        took: latencies.percentiles(),
    })
}

/// Runs a command in an empty directory, where no settings are found; how long it took. It must succeed.
fn again(binary: &Path, args: &[&str], dir: &Path) -> Result<Duration, BenchError> {
    let directory = dir.join("empty");
    fs::create_dir_all(&directory)?;
    let mut command = Command::new(binary.canonicalize()?);
    command.args(args).current_dir(directory);
    timed(&mut command)
}

fn timed(command: &mut Command) -> Result<Duration, BenchError> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let status = tokio::task::block_in_place(|| command.status())?;
    let took = start.elapsed();
    if !status.success() {
        return Err(format!("{command:?} failed: {status}").into());
    }
    Ok(took)
}

/// `k3 get pods -A` of many.
async fn show_pods(options: &ApiOptions, runs: usize, dir: &Path) -> Result<CommandRow, BenchError> {
    let pods = options.effort.of(PODS) as usize;
    let directory = dir.join("pods");
    let nodes = pods.div_ceil(EACH);
    let server_options = ServerOptions::with(options, [format!("--simulated-nodes={nodes}")])?;
    let server = server_options.start(&directory).await?;
    let session = session(&server, options);
    until(async || nodes_are_ready(&session, nodes).await).await?;
    make_deployments(&session, pods.div_ceil(EACH), EACH).await?;
    until(async || Ok(available(&session).await? >= pods)).await?;
    let kubeconfig = directory.join("data/admin.kubeconfig").canonicalize()?;
    let kubeconfig = kubeconfig.display().to_string();
    let mut show = || {
        again(
            &server_options.binary,
            &["get", "pods", "-A", "--kubeconfig", &kubeconfig],
            dir,
        )
    };
    let row = repeat("get pods -A", runs, &mut show)?;
    server.stop().await?;
    Ok(row)
}

/// A data directory with many objects, of a server that is stopped.
async fn fill(options: &ApiOptions, directory: &Path) -> Result<(PathBuf, usize), BenchError> {
    let count = options.effort.of(OBJECTS) as usize;
    let server = ServerOptions::alone(options)?.start(directory).await?;
    let session = session(&server, options);
    make_namespace(&session, "full").await?;
    let make = |index: usize| {
        let object = objects::config_map(&config_map_name(index), index, 0);
        ApiRequest::post(config_maps("full"), &object)
    };
    session.prepare(count, &[201], make).await?;
    server.stop().await?;
    Ok((directory.join("data").canonicalize()?, count))
}

/// Moves all objects into a fresh database.
fn migrate(
    binary: &Path,
    source: &Path,
    objects: usize,
    backend: Backend,
    dir: &Path,
) -> Result<MigrateRow, BenchError> {
    let directory = dir.join(backend.name());
    let service = tokio::task::block_in_place(|| Service::start(backend, &directory))?;
    let from = format!("file:{}", source.display());
    let to = service.address(&directory)?.ok_or("this store has no address")?;
    let took = again(binary, &["migrate", "--from", &from, "--to", &to], dir)?;
    Ok(MigrateRow {
        to: backend.name(),
        objects,
        seconds: took.as_secs_f64(),
    })
}
