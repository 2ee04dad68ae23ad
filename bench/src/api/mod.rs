//! The API server under load: what each operation costs it, beside what it costs upstream.
//!
//! Promises: the server is a process of its own and only its CPU time and memory are counted; it is started as
//! a user starts it, with TLS, and asked by clients that prove who they are with the certificate it made for
//! its admin; what cannot be measured is named, and the run fails.

mod against;
pub(crate) mod client;
mod costly;
mod disturbance;
pub(crate) mod hostile;
mod lists;
pub(crate) mod load;
pub(crate) mod objects;
pub(crate) mod operations;
mod oversized;
mod parked_node;
mod report;
pub(crate) mod server;
mod state;
mod upstream;
pub(crate) mod watches;

use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::{
    against::Baseline,
    load::Session,
    operations::{NAMESPACE, make_namespace},
    report::ApiReport,
    server::ServerOptions,
};
use crate::{
    BenchError,
    cpu::CpuMeter,
    directories::{data_directory, results, write},
    flags::ApiOptions,
    machine::MachineInfo,
};

/// Measures everything, prints it, and writes it down.
pub(crate) async fn run(options: &ApiOptions) -> Result<(), BenchError> {
    raise_open_files()?;
    let baseline = options.against.as_deref().map(Baseline::read).transpose()?;
    let server_options = match baseline {
        // The other run was of a server with all its controllers.
        Some(_) => ServerOptions::with(options, [])?,
        None => ServerOptions::alone(options)?,
    };
    let dir = data_directory(options.dir.as_deref())?;
    let measured = measure(&server_options, options, &dir).await;
    std::fs::remove_dir_all(&dir)?;
    let mut report = measured?;
    report.check_requirements();
    if let Some(baseline) = &baseline {
        report.against = baseline.compare(&report.operations);
    }
    report.print();
    write(&report, &results(options.json.as_deref(), "api.json"))?;
    if !report.failures.is_empty() {
        return Err("not everything could be measured".into());
    }
    let missed = against::missed(&report.against);
    if !missed.is_empty() {
        return Err(format!("more CPU time than asked: {}", missed.join("; ")).into());
    }
    Ok(())
}

async fn measure(
    server_options: &ServerOptions,
    options: &ApiOptions,
    dir: &Path,
) -> Result<ApiReport, BenchError> {
    let mut report = ApiReport::new(MachineInfo::find(dir)?, options);
    say("starts");
    report.starts.push(state::start_empty(server_options, dir).await?);

    let server = server_options.start(&dir.join("load")).await?;
    let session = Session {
        endpoint: &server.endpoint,
        meter: CpuMeter::new(Some(server.pid())),
        connections: options.connections,
    };
    // Controllers delete pods of nodes that are not there, or do not answer.
    parked_node::create(&session).await?;
    tokio::select! {
        driven = drive(&session, options, &mut report) => driven?,
        failed = parked_node::keep_ready(&session) => return Err(failed),
    }
    server.stop().await?;

    say("memory, and a start with objects");
    match state::fill(server_options, dir, options.connections, options.effort).await {
        Ok((weight, start)) => {
            report.weight = Some(weight);
            report.starts.extend(start);
        }
        Err(failure) => report.failures.push(format!("memory: {failure}")),
    }
    Ok(report)
}

/// All that needs a server with objects. A part that fails is named, and the others go on.
async fn drive(
    session: &Session<'_>,
    options: &ApiOptions,
    report: &mut ApiReport,
) -> Result<(), BenchError> {
    let effort = options.effort;
    make_namespace(session, NAMESPACE).await?;
    say("create");
    operations::create(session, &mut report.operations).await?;
    let rows = &mut report.operations;
    let failures = &mut report.failures;
    say("get");
    note("get", operations::get(session, effort, rows).await, failures);
    say("lists");
    note("lists", lists::measure(session, effort, rows).await, failures);
    say("update");
    note("update", operations::update(session, rows).await, failures);
    say("patch");
    note("patch", operations::patch(session, rows).await, failures);
    say("apply");
    note("apply", operations::apply(session, effort, rows).await, failures);
    say("writers beside lists");
    let disturbance = disturbance::measure(session, effort).await;
    report.disturbance = note("writers beside lists", disturbance, failures);
    say("delete");
    note("delete", operations::delete(session, rows).await, failures);
    say("watches");
    note("watches", watches::measure(session, effort, rows).await, failures);
    Ok(())
}

/// What was measured, if it was; otherwise the failure is kept.
fn note<T>(what: &str, measured: Result<T, BenchError>, failures: &mut Vec<String>) -> Option<T> {
    measured
        .inspect_err(|failure| failures.push(format!("{what}: {failure}")))
        .ok()
}

/// A thousand watchers are a thousand connections, about as many as a process may open by default.
fn raise_open_files() -> Result<(), BenchError> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: maximum,
        maximum,
    };
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Reports progress on standard error.
fn say(what: &str) {
    eprintln!("measuring {what}");
}
