//! The server under attack: what ordinary clients feel of it, and what it costs. First by single requests that are as costly as can
//! be, then by many clients at once.
//!
//! Promises: the attackers are there before the clock starts, and all of them go on until it stops; ordinary clients arrive at a
//! steady pace, so that waiting counts; every answer to them is checked.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, interval, sleep, timeout},
};

use super::{
    client::{ApiRequest, Connection, Endpoint},
    costly::{self, CostlyReport},
    load::{RequestTally, is_object},
    objects,
    server::{Server, ServerOptions},
};
use crate::{
    BenchError,
    choices::BenchEffort,
    directories::{data_directory, results, write},
    flags::ApiOptions,
    latency::Percentiles,
    machine::MachineInfo,
    requirement::{self, Requirement, RequirementBound},
};

const SECONDS: u32 = 60;
const WATCHERS: u32 = 10_000;
const SLOW_BODIES: usize = 100;
const ORDINARY: usize = 8;
/// How often each ordinary client asks.
const PACE: Duration = Duration::from_millis(50);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// How many connections are opened at a time.
const AT_ONCE: usize = 32;
/// A client that is not answered in this time is not served.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was seen.
#[derive(Serialize)]
struct HostileReport {
    machine: MachineInfo,
    seconds: u32,
    watchers: usize,
    ordinary: Percentiles,
    requests: usize,
    costly: CostlyReport,
    requirements: Vec<Requirement>,
}

/// Measures, prints, and writes it down.
pub(crate) async fn run(options: &ApiOptions) -> Result<(), BenchError> {
    super::raise_open_files()?;
    let dir = data_directory(options.dir.as_deref())?;
    let server = ServerOptions::alone(options)?.start(&dir.join("hostile")).await;
    let measured = match server {
        Ok(server) => measure(server, options, MachineInfo::find(&dir)?).await,
        Err(failure) => Err(failure),
    };
    std::fs::remove_dir_all(&dir)?;
    let report = measured?;
    println!(
        "{} requests of ordinary clients in {} s beside {} watchers: p50 {:.1} ms, p99 {:.1} ms",
        report.requests,
        report.seconds,
        report.watchers,
        report.ordinary.p50_us / 1000.0,
        report.ordinary.p99_us / 1000.0
    );
    report.costly.print();
    requirement::print(&report.requirements);
    write(&report, &results(options.json.as_deref(), "hostile.json"))?;
    if report
        .requirements
        .iter()
        .any(|requirement| requirement.met == Some(false))
    {
        return Err("not everything is as asked".into());
    }
    Ok(())
}

async fn measure(
    server: Server,
    options: &ApiOptions,
    machine: MachineInfo,
) -> Result<HostileReport, BenchError> {
    let (seconds, watchers) = match options.effort {
        BenchEffort::Full => (SECONDS, WATCHERS),
        BenchEffort::Quick => (SECONDS / 6, WATCHERS / 10),
    };
    let mut costly = costly::measure(&server, options.effort).await?;
    let endpoint = Arc::new(server.endpoint.clone());
    super::say("the opening of watches");
    let idle = watch(&endpoint, watchers as usize).await?;
    let mut attackers = JoinSet::new();
    for _ in 0..SLOW_BODIES {
        attackers.spawn(again(Arc::clone(&endpoint), slow_body));
    }
    for _ in 0..2 {
        attackers.spawn(again(Arc::clone(&endpoint), rapid_resets));
        attackers.spawn(again(Arc::clone(&endpoint), long_body));
        attackers.spawn(again(Arc::clone(&endpoint), deep_body));
    }
    super::say("ordinary clients among them");
    let mut clients = JoinSet::new();
    for number in 0..ORDINARY {
        clients.spawn(ordinary(
            Arc::clone(&endpoint),
            format!("ordinary-{number}"),
            Duration::from_secs(seconds.into()),
            Arc::default(),
        ));
    }
    let mut tally = RequestTally::default();
    let mut most = server.resident()?;
    while let Some(client) = clients.join_next().await {
        tally.append(client??);
        most = most.max(server.resident()?);
    }
    attackers.shutdown().await;
    let panics = panics(&endpoint).await?;
    let still = idle.len();
    drop(idle);
    server.stop().await?;
    let requests = tally.latencies.count();
    let ordinary = tally.latencies.percentiles();
    if let Some(error) = &tally.first_error {
        eprintln!("the first error: {error}");
    }
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let mut requirements = vec![
        Requirement::new(
            "p99 of ordinary requests, ms",
            RequirementBound::AtMost(250.0),
            Some(ordinary.p99_us / 1000.0),
        ),
        Requirement::new(
            "ordinary requests that failed",
            RequirementBound::AtMost(0.0),
            Some(tally.errors as f64),
        ),
        Requirement::new("panics", RequirementBound::AtMost(0.0), Some(panics)),
        Requirement::new(
            "resident memory, MiB",
            RequirementBound::AtMost(1536.0),
            Some(most as f64 / f64::from(1 << 20)),
        ),
    ];
    requirements.append(&mut costly.requirements);
    Ok(HostileReport {
        machine,
        seconds,
        watchers: still,
        ordinary,
        requests,
        costly,
        requirements,
    })
}

/// Opens watches that nothing will ever happen to.
async fn watch(endpoint: &Arc<Endpoint>, count: usize) -> Result<Vec<(Connection, impl Sized)>, BenchError> {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut opening = JoinSet::new();
    for _ in 0..count {
        let endpoint = Arc::clone(endpoint);
        let permits = Arc::clone(&permits);
        opening.spawn(async move {
            let _permit = permits.acquire_owned().await?;
            let mut connection = endpoint.connect().await?;
            let path = "/api/v1/namespaces/kube-public/configmaps?watch=true&timeoutSeconds=3600";
            let response = connection.send(ApiRequest::get(path)).await?;
            if response.status() != 200 {
                return Err(BenchError::from(format!(
                    "a watch is answered with {}",
                    response.status()
                )));
            }
            Ok((connection, response))
        });
    }
    let mut open = Vec::with_capacity(count);
    while let Some(opened) = opening.join_next().await {
        open.push(opened??);
    }
    Ok(open)
}

/// Attacks repeatedly. That an attack is cut off is as it should be.
async fn again<F>(endpoint: Arc<Endpoint>, attack: impl Fn(Arc<Endpoint>) -> F)
where
    F: Future<Output = Result<(), BenchError>>,
{
    loop {
        if attack(Arc::clone(&endpoint)).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A body that sends one byte every second.
async fn slow_body(endpoint: Arc<Endpoint>) -> Result<(), BenchError> {
    let mut stream = endpoint.stream().await?;
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: k3\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    loop {
        stream.write_all(b" ").await?;
        stream.flush().await?;
        sleep(Duration::from_secs(1)).await;
    }
}

/// Requests over HTTP/2 that are taken back at once, until the other end hangs up.
async fn rapid_resets(endpoint: Arc<Endpoint>) -> Result<(), BenchError> {
    let mut stream = endpoint.stream().await?;
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await?;
    let path = b"/api/v1/pods";
    for number in (1_u32..20_000).step_by(2) {
        let mut frames = vec![0, 0, 20, 1, 5];
        frames.extend(number.to_be_bytes());
        frames.extend([0x82, 0x87, 0x01, 2, b'k', b'3', 0x04, 12]);
        frames.extend(path);
        frames.extend([0, 0, 4, 3, 0]);
        frames.extend(number.to_be_bytes());
        frames.extend(8_u32.to_be_bytes());
        stream.write_all(&frames).await?;
    }
    stream.flush().await?;
    let mut rest = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut rest)).await??;
    Ok(())
}

/// Three mebibytes that say nothing but must be read.
async fn long_body(endpoint: Arc<Endpoint>) -> Result<(), BenchError> {
    let text = format!(
        r#"{{"metadata":{{"name":"long"}},"data":{{"a":"{}"}}}}"#,
        "x".repeat(3_100_000)
    );
    flood(endpoint, text).await
}

/// A mebibyte of beginnings without an end.
async fn deep_body(endpoint: Arc<Endpoint>) -> Result<(), BenchError> {
    flood(
        endpoint,
        format!(r#"{{"metadata":{{"name":"deep"}},"data":{}"#, "[".repeat(1 << 20)),
    )
    .await
}

/// The same request on and on.
async fn flood(endpoint: Arc<Endpoint>, body: String) -> Result<(), BenchError> {
    let body = Bytes::from(body);
    let mut connection = endpoint.connect().await?;
    loop {
        let answer = connection
            .call(ApiRequest::raw(CONFIG_MAPS, body.clone()))
            .await?;
        if !(400..500).contains(&answer.status) {
            return Err(format!("an attack is answered with {}", answer.status).into());
        }
    }
}

/// Reads an object periodically, and now and then changes it, for some time or until it is over.
pub(super) async fn ordinary(
    endpoint: Arc<Endpoint>,
    name: String,
    time: Duration,
    is_over: Arc<AtomicBool>,
) -> Result<RequestTally, BenchError> {
    let mut connection = endpoint.connect().await?;
    let made = connection
        .call(ApiRequest::post(CONFIG_MAPS, &objects::config_map(&name, 0, 0)))
        .await?;
    made.expect(&[201])?;
    let path = format!("{CONFIG_MAPS}/{name}");
    let mut tally = RequestTally::default();
    let mut pace = interval(PACE);
    let begin = Instant::now();
    for round in 1_usize.. {
        pace.tick().await;
        if begin.elapsed() > time || is_over.load(Relaxed) {
            break;
        }
        let call = if round.is_multiple_of(4) {
            ApiRequest::put(path.clone(), &objects::config_map(&name, 0, round))
        } else {
            ApiRequest::get(path.clone())
        };
        let check = |answer: &_| is_object(answer, 200, &name);
        if !tally.call(&mut connection, call, check).await {
            connection = endpoint.connect().await?;
        }
    }
    Ok(tally)
}

/// How many panics the server counts.
async fn panics(endpoint: &Endpoint) -> Result<f64, BenchError> {
    let answer = endpoint
        .connect()
        .await?
        .call(ApiRequest::get("/metrics"))
        .await?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let figure = text
        .lines()
        .find_map(|line| line.strip_prefix("apiserver_panics_total "));
    Ok(figure.ok_or("the server does not report panics")?.parse()?)
}
