//! Events on their way to watchers.

use std::{sync::Arc, time::Duration};

use k3_storage::{Prefix, Revision, Store, WatchStream};
use serde::Serialize;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at},
};

use super::load::{StoreTarget, Target, VALUE_BYTES, WrittenKey, slots_under};
use crate::{
    BenchError,
    choices::BenchEffort,
    cpu::CpuMeter,
    latency::{Latencies, Percentiles},
};

/// Subtrees that are watched, each by a tenth of the watchers.
const SUBTREES: usize = 10;
const WATCHERS: usize = 1000;
/// Writers, and how often each has its turn: together they make 2,000 commits a second, as long as
/// none takes longer than a turn.
const WRITERS: u32 = 100;
const TURN: Duration = Duration::from_millis(50);
const TIME: Duration = Duration::from_secs(5);
/// Events that all watchers together get in a flat-out run.
const DELIVERIES: u32 = 1_000_000;
const FAN_OUT_KEYS: usize = 1000;

/// How long events take to those who wait for them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DeliveryRow {
    pub(crate) target: String,
    pub(crate) watchers: usize,
    pub(crate) commits_per_second: f64,
    pub(crate) deliveries_per_second: f64,
    /// From the moment the writer asked for the commit.
    pub(crate) from_call: Percentiles,
    /// From the moment the writer was answered; zero for those who heard of it before.
    pub(crate) from_answer: Percentiles,
}

/// How many events can be delivered.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FanOutRow {
    pub(crate) target: String,
    pub(crate) watchers: usize,
    pub(crate) commits_per_second: f64,
    pub(crate) events_per_second: f64,
    pub(crate) cpu_us_per_event: f64,
}

/// A commit, as its writer saw it.
struct CommitRecord {
    revision: Revision,
    called: Instant,
    answered: Instant,
}

/// Measures the way of events with many watchers and a steady pace of commits.
pub(crate) async fn delivery(
    name: &str,
    store: &Arc<dyn Store>,
    effort: BenchEffort,
) -> Result<DeliveryRow, BenchError> {
    let began = store.current_revision().await?;
    let mut watchers = JoinSet::new();
    for number in 0..WATCHERS {
        let prefix = subtree(number % SUBTREES)?;
        let events = store.watch(&prefix, began).await?;
        watchers.spawn(note_arrivals(events));
    }
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let slots = slots_under(
            &format!("{}of-{number}", subtree(number as usize % SUBTREES)?),
            10,
        );
        let first = TURN * number / WRITERS;
        let store = Arc::clone(store);
        writers.spawn(keep_pace(store, slots, first, effort.of(TIME)));
    }
    let mut commits = Vec::new();
    while let Some(done) = writers.join_next().await {
        commits.extend(done??);
    }
    // The mark that tells each watcher to stop: it matches all of them.
    let mut marks = Vec::new();
    for number in 0..SUBTREES {
        marks.extend(slots_under(&format!("{}last", subtree(number)?), 1));
    }
    let target = StoreTarget::new(Arc::clone(store));
    for mark in &mut marks {
        target.commit(mark, "last".into()).await?;
    }
    summarise(name, began, &commits, watchers).await
}

async fn summarise(
    name: &str,
    began: Revision,
    commits: &[CommitRecord],
    mut watchers: JoinSet<Result<Vec<(Revision, Instant)>, BenchError>>,
) -> Result<DeliveryRow, BenchError> {
    let mut by_revision = Vec::new();
    for commit in commits {
        let index = usize::try_from(commit.revision.get() - began.get())?;
        if by_revision.len() <= index {
            by_revision.resize_with(index + 1, || None);
        }
        by_revision[index] = Some(commit);
    }
    let mut from_call = Latencies::default();
    let mut from_answer = Latencies::default();
    while let Some(done) = watchers.join_next().await {
        for (revision, arrived) in done?? {
            let index = usize::try_from(revision.get() - began.get())?;
            if let Some(Some(commit)) = by_revision.get(index) {
                from_call.add(arrived.duration_since(commit.called));
                from_answer.add(arrived.saturating_duration_since(commit.answered));
            }
        }
    }
    let delivered = from_call.count();
    let expected = commits.len() * WATCHERS / SUBTREES;
    if delivered != expected {
        return Err(format!("{delivered} events arrived of {expected}").into());
    }
    let first = commits.iter().map(|commit| commit.called).min();
    let last = commits.iter().map(|commit| commit.answered).max();
    let took = last
        .zip(first)
        .map_or(Duration::ZERO, |(last, first)| last - first);
    Ok(DeliveryRow {
        target: name.to_owned(),
        watchers: WATCHERS,
        commits_per_second: per_second(commits.len(), took),
        deliveries_per_second: per_second(delivered, took),
        from_call: from_call.percentiles(),
        from_answer: from_answer.percentiles(),
    })
}

/// Notes when each event arrives, until the mark.
async fn note_arrivals(mut events: WatchStream) -> Result<Vec<(Revision, Instant)>, BenchError> {
    let mut arrivals = Vec::new();
    loop {
        let batch = events.next().await?;
        let now = Instant::now();
        for event in &*batch.events {
            if event.key.contains("last/") {
                return Ok(arrivals);
            }
            arrivals.push((event.revision, now));
        }
    }
}

/// Commits once per turn, whether or not the last one was slow.
async fn keep_pace(
    store: Arc<dyn Store>,
    mut slots: Vec<WrittenKey>,
    first: Duration,
    time: Duration,
) -> Result<Vec<CommitRecord>, BenchError> {
    let target = StoreTarget::new(store);
    let value = bytes::Bytes::from(vec![0x5a; VALUE_BYTES]);
    let start = Instant::now() + first;
    let mut turns = interval_at(start, TURN);
    turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut commits = Vec::new();
    while start.elapsed() < time {
        turns.tick().await;
        let turn = commits.len() % slots.len();
        let called = Instant::now();
        target.commit(&mut slots[turn], value.clone()).await?;
        commits.push(CommitRecord {
            revision: slots[turn].revision,
            called,
            answered: Instant::now(),
        });
    }
    Ok(commits)
}

/// Measures how many events reach so many watchers that want all of them.
pub(crate) async fn fan_out(
    name: &str,
    store: &Arc<dyn Store>,
    watchers: usize,
    effort: BenchEffort,
) -> Result<FanOutRow, BenchError> {
    let tree = format!("/registry/fan-out-{watchers}");
    let updates = (effort.of(DELIVERIES) as usize / watchers / FAN_OUT_KEYS).clamp(1, 100);
    let commits = updates * FAN_OUT_KEYS;
    let began = store.current_revision().await?;
    let prefix = Prefix::try_new(format!("{tree}/"))?;
    let mut listening = JoinSet::new();
    for _ in 0..watchers {
        listening.spawn(count(store.watch(&prefix, began).await?, commits));
    }
    let meter = CpuMeter::new(None);
    let start = Instant::now();
    let before = meter.read()?;
    super::load::update_all(store, slots_under(&tree, FAN_OUT_KEYS), updates).await?;
    let written = start.elapsed();
    while let Some(done) = listening.join_next().await {
        done??;
    }
    let took = start.elapsed();
    let spent = meter.read()?.since(before);
    let events = commits * watchers;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let each = spent.own.as_secs_f64() * 1e6 / events as f64;
    Ok(FanOutRow {
        target: name.to_owned(),
        watchers,
        commits_per_second: per_second(commits, written),
        events_per_second: per_second(events, took),
        cpu_us_per_event: each,
    })
}

/// Waits for so many events, each newer than the one before.
async fn count(mut events: WatchStream, expected: usize) -> Result<(), BenchError> {
    let mut seen = 0;
    let mut last = Revision::ZERO;
    while seen < expected {
        for event in &*events.next().await?.events {
            if event.revision <= last {
                return Err(format!("revision {} arrived after {last}", event.revision).into());
            }
            last = event.revision;
            seen += 1;
        }
        tokio::task::coop::consume_budget().await;
    }
    Ok(())
}

fn subtree(number: usize) -> Result<Prefix, BenchError> {
    Ok(Prefix::try_new(format!("/registry/watched-{number}/"))?)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-9)
}
