//! The work queue and an empty controller: how many keys go through them.

mod report;

use std::{sync::Arc, time::Duration};

use kubecontroller::{
    Key,
    controller::{Controller, Outcome, reconcile_fn},
    manager::Stop,
    metrics::Metrics,
    workqueue::{WorkQueue, WorkQueueOptions},
};
use tokio::{task::JoinSet, time::Instant};

use self::report::{QueueReport, Row};
use crate::{
    BenchError,
    cpu::CpuMeter,
    directories::{own_directory, results, write},
    flags::QueueOptions,
    machine::MachineInfo,
};

/// How many keys go through in a round.
const KEYS: u32 = 2_000_000;
/// How many namespaces they are in.
const NAMESPACES: u32 = 100;
const WORKERS: usize = 4;
/// What counts is the median.
const ROUNDS: usize = 5;

/// Measures everything, prints it, and writes it down.
pub(crate) async fn run(options: &QueueOptions) -> Result<(), BenchError> {
    let dir = match &options.dir {
        Some(dir) => dir.clone(),
        None => own_directory()?,
    };
    let mut report = QueueReport::new(MachineInfo::find(&dir)?, options.effort);
    let keys = options.effort.of(KEYS);
    for round in 0..ROUNDS {
        eprintln!("measuring round {}", round + 1);
        report.queue.push(through_queue(keys).await?);
        report.reconciles.push(through_controller(keys).await?);
        for pending in [keys / 1000, keys] {
            report.pending.push(work_off(pending)?);
        }
    }
    report.check_requirements();
    report.print();
    write(&report, &results(options.json.as_deref(), "queue.json"))
}

fn key(number: u32) -> Key {
    Key::new(
        &format!("namespace-{}", number % NAMESPACES),
        &format!("name-{number}"),
    )
}

fn by_namespace() -> WorkQueueOptions<Key> {
    use std::hash::BuildHasher;
    let hasher = std::hash::RandomState::new();
    WorkQueueOptions {
        lane: Arc::new(move |key: &Key| hasher.hash_one(key.namespace())),
        ..WorkQueueOptions::default()
    }
}

/// One adds, four get and finish.
async fn through_queue(count: u32) -> Result<Row, BenchError> {
    let keys: Vec<_> = (0..count).map(key).collect();
    let queue = WorkQueue::new(by_namespace());
    let mut tasks = JoinSet::new();
    let meter = CpuMeter::new(None);
    let begin = Instant::now();
    let before = meter.read()?;
    for _ in 0..WORKERS {
        let queue = queue.clone();
        tasks.spawn(async move {
            let mut done = 0_u32;
            let mut next = queue.next();
            while let Some(job) = next.await {
                done += 1;
                next = job.done_and_next().1;
            }
            done
        });
    }
    tasks.spawn(async move {
        for key in keys {
            queue.add(key);
        }
        queue.close();
        0
    });
    let mut done = 0;
    while let Some(ended) = tasks.join_next().await {
        done += ended?;
    }
    if done != count {
        return Err(format!("{done} of {count} keys were processed").into());
    }
    Ok(Row::new(count, begin.elapsed(), meter.read()?.since(before).own))
}

/// The same with a controller whose reconciler does nothing, and with its metrics.
async fn through_controller(count: u32) -> Result<Row, BenchError> {
    let keys: Vec<_> = (0..count).map(key).collect();
    let metrics = Metrics::default();
    let controller = Controller::new("empty").workers(WORKERS).metrics(&metrics);
    let runner = controller.reconciler(reconcile_fn(|_| async { Ok(Outcome::Done) }));
    let handle = runner.handle();
    let stop = Stop::new();
    let mut tasks = JoinSet::new();
    let stop_of_runner = stop.clone();
    let meter = CpuMeter::new(None);
    let begin = Instant::now();
    let before = meter.read()?;
    tasks.spawn(async move { runner.run(stop_of_runner).await });
    let queue = handle.queue();
    let producer = async move {
        for key in keys {
            queue.add(key);
        }
        queue.wait_until_drained().await;
        Ok(())
    };
    tasks.spawn(producer);
    tasks
        .join_next()
        .await
        .ok_or("nothing ran")??
        .map_err(|error| error.to_string())?;
    let row = Row::new(count, begin.elapsed(), meter.read()?.since(before).own);
    stop.stop(Duration::from_secs(10));
    while let Some(ended) = tasks.join_next().await {
        ended?.map_err(|error| error.to_string())?;
    }
    Ok(row)
}

/// One adds all keys, and then works them off: each costs the same, however many there are.
fn work_off(count: u32) -> Result<Row, BenchError> {
    let keys: Vec<_> = (0..count).map(key).collect();
    let queue = WorkQueue::new(by_namespace());
    let meter = CpuMeter::new(None);
    let begin = Instant::now();
    let before = meter.read()?;
    for key in keys {
        queue.add(key);
    }
    let mut done = 0;
    while let Some(job) = queue.try_next() {
        job.done();
        done += 1;
    }
    if done != count {
        return Err(format!("{done} of {count} keys were processed").into());
    }
    Ok(Row::new(count, begin.elapsed(), meter.read()?.since(before).own))
}
