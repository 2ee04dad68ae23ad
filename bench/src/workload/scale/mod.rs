//! A cluster of the size that upstream promises: 5,000 nodes and 150,000 pods, all of them simulated, in one process.
//!
//! Promises: pods are created by deployments, bound by the scheduler, and count when their deployment reports that they are
//! available; then pods die all the time and others take their place, while clients ask for single objects, and what those
//! wait is what is measured.

mod churn;
mod report;

use std::{path::Path, time::Duration};

use tokio::time::{Instant, sleep};

use self::report::ScaleReport;
use super::{CpuMeasurement, asked_every, available, make_deployments, nodes_are_ready, session};
use crate::{
    BenchError,
    api::{load::Session, server::ServerOptions},
    choices::BenchEffort,
    directories::{data_directory, results, write},
    flags::ApiOptions,
    machine::MachineInfo,
};

/// How long each part may take.
const PATIENCE: Duration = Duration::from_mins(30);
/// How often it is asked how far it is. An answer has all nodes, or all deployments.
const PAUSE: Duration = Duration::from_secs(2);
/// How many pods a deployment has.
const REPLICAS: usize = 100;
/// How long a server may take to rest, and what CPU time it may spend in a second of that.
const REST: Duration = Duration::from_mins(2);
const RESTING: Duration = Duration::from_millis(300);

/// How large it is, and how long pods die.
struct Size {
    nodes: usize,
    deployments: usize,
    churn: Duration,
}

/// Measures everything, prints it, and writes it down.
pub(crate) async fn run(options: &ApiOptions) -> Result<(), BenchError> {
    let size = match options.effort {
        BenchEffort::Quick => Size {
            nodes: 500,
            deployments: 100,
            churn: Duration::from_secs(20),
        },
        BenchEffort::Full => Size {
            nodes: 5_000,
            deployments: 1_500,
            churn: Duration::from_mins(2),
        },
    };
    let dir = data_directory(options.dir.as_deref())?;
    let measured = measure(options, &size, &dir).await;
    std::fs::remove_dir_all(&dir)?;
    let mut report = measured?;
    report.check_requirements();
    report.print();
    write(&report, &results(options.json.as_deref(), "scale.json"))
}

async fn measure(options: &ApiOptions, size: &Size, dir: &Path) -> Result<ScaleReport, BenchError> {
    let mut report = ScaleReport::new(MachineInfo::find(dir)?);
    let pods = size.deployments * REPLICAS;
    let server = ServerOptions::with(options, [format!("--simulated-nodes={}", size.nodes)])?
        .start(&dir.join("server"))
        .await?;
    let session = session(&server, options);
    eprintln!("{} nodes register", size.nodes);
    let begun = CpuMeasurement::now(&session)?;
    asked_every(PAUSE, PATIENCE, async || {
        nodes_are_ready(&session, size.nodes).await
    })
    .await?;
    report.rows.push(begun.row(report::NODES, size.nodes)?);
    report.weigh("with all nodes", server.pid())?;

    eprintln!("creating {pods} pods");
    let begun = CpuMeasurement::now(&session)?;
    make_deployments(&session, size.deployments, REPLICAS).await?;
    all_run(&session, pods).await?;
    report.rows.push(begun.row(report::PODS, pods)?);
    report.weigh("when the last pod runs", server.pid())?;
    rest(&session).await?;
    report.weigh("at rest", server.pid())?;

    eprintln!("pods are deleted and created");
    let begun = CpuMeasurement::now(&session)?;
    let (deaths, waits) = churn::measure(&session, size.churn).await?;
    report.rows.push(begun.row(report::CHURN, deaths)?);
    report.waits = waits;
    all_run(&session, pods).await?;
    report.weigh("after pods died", server.pid())?;
    server.stop().await?;
    Ok(report)
}

async fn all_run(session: &Session<'_>, pods: usize) -> Result<(), BenchError> {
    let mut reported = 0;
    asked_every(PAUSE, PATIENCE, async || {
        let found = available(session).await?;
        if found / 10_000 > reported {
            reported = found / 10_000;
            eprintln!("{found} pods run");
        }
        Ok(found >= pods)
    })
    .await
}

/// Waits until the server has little to do; for a while at most.
async fn rest(session: &Session<'_>) -> Result<(), BenchError> {
    let start = Instant::now();
    while start.elapsed() < REST {
        let before = session.meter.read()?;
        sleep(Duration::from_secs(1)).await;
        if session.meter.read()?.since(before).server < RESTING {
            break;
        }
    }
    Ok(())
}
