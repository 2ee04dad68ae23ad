//! Writers that commit as fast as they are answered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use k3_storage::{Key, Revision, Store, Write};
use serde::Serialize;
use tokio::{task::JoinSet, time::Instant};

use crate::{
    BenchError,
    choices::BenchEffort,
    cpu::CpuMeter,
    latency::{Latencies, Percentiles},
};

/// The size of the values: that of a small pod.
pub(crate) const VALUE_BYTES: usize = 1536;
/// How many writers at once.
const LEVELS: [usize; 4] = [1, 16, 128, 1024];
/// How many keys they write to, each its own.
const KEYS: usize = 10_240;
const WARM_UP: Duration = Duration::from_secs(1);
const TIME: Duration = Duration::from_secs(5);

/// A key and the revision of its newest value: what a writer needs to replace it.
pub(crate) struct WrittenKey {
    pub(crate) key: Key,
    pub(crate) revision: Revision,
}

/// What takes commits.
pub(crate) trait Target: Send + Sync + 'static {
    /// Replaces the value of a slot, and waits until that is done.
    fn commit(
        &self,
        slot: &mut WrittenKey,
        value: Bytes,
    ) -> impl Future<Output = Result<(), BenchError>> + Send;
}

/// A store that takes commits.
pub(crate) struct StoreTarget(Arc<dyn Store>);

/// How a target does with so many writers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CommitRow {
    pub(crate) target: String,
    pub(crate) writers: usize,
    pub(crate) commits_per_second: f64,
    pub(crate) latency: Percentiles,
    /// User and system time of this process per commit.
    pub(crate) own_cpu_us: f64,
    /// The same of the server's process.
    pub(crate) server_cpu_us: f64,
}

const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const DONE: u8 = 2;

/// Measures a target with more and more writers.
pub(crate) async fn levels(
    name: &str,
    target: impl Target,
    mut slots: Vec<WrittenKey>,
    meter: CpuMeter,
    effort: BenchEffort,
) -> Result<Vec<CommitRow>, BenchError> {
    let target = Arc::new(target);
    let mut rows = Vec::new();
    for writers in LEVELS {
        let (row, back) = level(name, &target, slots, writers, meter, effort).await?;
        slots = back;
        rows.push(row);
    }
    Ok(rows)
}

async fn level(
    name: &str,
    target: &Arc<impl Target>,
    slots: Vec<WrittenKey>,
    writers: usize,
    meter: CpuMeter,
    effort: BenchEffort,
) -> Result<(CommitRow, Vec<WrittenKey>), BenchError> {
    let phase = Arc::new(AtomicU8::new(WARMING));
    let values = values();
    let mut tasks = JoinSet::new();
    for share in shares(slots, writers) {
        tasks.spawn(write(
            Arc::clone(target),
            share,
            values.clone(),
            Arc::clone(&phase),
        ));
    }
    tokio::time::sleep(effort.of(WARM_UP)).await;
    let start = Instant::now();
    let before = meter.read()?;
    phase.store(MEASURING, Ordering::Relaxed);
    tokio::time::sleep(effort.of(TIME)).await;
    phase.store(DONE, Ordering::Relaxed);
    let took = start.elapsed();
    let spent = meter.read()?.since(before);

    let mut latencies = Latencies::default();
    let mut slots = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let (measured, share) = done??;
        latencies.append(measured);
        slots.extend(share);
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let commits = latencies.count().max(1) as f64;
    let row = CommitRow {
        target: name.to_owned(),
        writers,
        commits_per_second: commits / took.as_secs_f64(),
        latency: latencies.percentiles(),
        own_cpu_us: spent.own.as_secs_f64() * 1e6 / commits,
        server_cpu_us: spent.server.as_secs_f64() * 1e6 / commits,
    };
    Ok((row, slots))
}

/// One writer, which writes its slots in turn.
async fn write(
    target: Arc<impl Target>,
    mut slots: Vec<WrittenKey>,
    values: Vec<Bytes>,
    phase: Arc<AtomicU8>,
) -> Result<(Latencies, Vec<WrittenKey>), BenchError> {
    let mut latencies = Latencies::default();
    let mut turn = 0;
    while phase.load(Ordering::Relaxed) != DONE {
        let count = slots.len();
        let slot = &mut slots[turn % count];
        let start = Instant::now();
        target.commit(slot, values[turn % values.len()].clone()).await?;
        let took = start.elapsed();
        if phase.load(Ordering::Relaxed) == MEASURING {
            latencies.add(took);
        }
        turn += 1;
        // A store that answers at once never lets go of the thread by itself.
        tokio::task::coop::consume_budget().await;
    }
    Ok((latencies, slots))
}

/// Keys that do not exist yet.
pub(crate) fn slots() -> Vec<WrittenKey> {
    slots_under("/registry/pods/default", KEYS)
}

/// So many keys that do not exist yet.
pub(crate) fn slots_under(prefix: &str, count: usize) -> Vec<WrittenKey> {
    (0..count)
        .map(|number| WrittenKey {
            key: Key::try_new(format!("{prefix}/object-{number:06}")).expect("the key is made well"),
            revision: Revision::ZERO,
        })
        .collect()
}

/// Creates the keys, with as many writers as make it quick.
pub(crate) async fn prefill(
    store: &Arc<dyn Store>,
    slots: Vec<WrittenKey>,
) -> Result<Vec<WrittenKey>, BenchError> {
    update_all(store, slots, 1).await
}

/// Creates the keys, each with a value of its own: they weigh what objects weigh.
pub(crate) async fn fill(store: &Arc<dyn Store>, slots: Vec<WrittenKey>) -> Result<(), BenchError> {
    let mut tasks: JoinSet<Result<(), BenchError>> = JoinSet::new();
    let values = values();
    for share in shares(slots, 128) {
        let target = StoreTarget::new(Arc::clone(store));
        let values = values.clone();
        tasks.spawn(async move {
            for (turn, mut slot) in share.into_iter().enumerate() {
                let value = Bytes::copy_from_slice(&values[turn % values.len()]);
                target.commit(&mut slot, value).await?;
                tokio::task::coop::consume_budget().await;
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// Writes each key so many times; creates those that do not exist.
pub(crate) async fn update_all(
    store: &Arc<dyn Store>,
    slots: Vec<WrittenKey>,
    times: usize,
) -> Result<Vec<WrittenKey>, BenchError> {
    let mut tasks: JoinSet<Result<Vec<WrittenKey>, BenchError>> = JoinSet::new();
    for mut share in shares(slots, 128) {
        let target = StoreTarget::new(Arc::clone(store));
        let values = values();
        tasks.spawn(async move {
            for turn in 0..times {
                for slot in &mut share {
                    target.commit(slot, values[turn % values.len()].clone()).await?;
                    tokio::task::coop::consume_budget().await;
                }
            }
            Ok(share)
        });
    }
    let mut slots = Vec::new();
    while let Some(share) = tasks.join_next().await {
        slots.extend(share??);
    }
    Ok(slots)
}

/// The slots dealt out to writers, none without.
fn shares(slots: Vec<WrittenKey>, writers: usize) -> Vec<Vec<WrittenKey>> {
    let mut shares: Vec<_> = (0..writers.min(slots.len())).map(|_| Vec::new()).collect();
    let count = shares.len();
    for (index, slot) in slots.into_iter().enumerate() {
        shares[index % count].push(slot);
    }
    shares
}

/// Values that nothing on the way could make smaller. They are shared by all commits, so that making
/// them is not what is measured.
fn values() -> Vec<Bytes> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..16)
        .map(|_| (0..VALUE_BYTES).map(|_| next()).collect())
        .collect()
}

// --- StoreTarget ---

impl StoreTarget {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }
}

impl Target for StoreTarget {
    async fn commit(&self, slot: &mut WrittenKey, value: Bytes) -> Result<(), BenchError> {
        let key = slot.key.clone();
        let write = match slot.revision {
            Revision::ZERO => Write::create(key, value),
            revision => Write::update(key, revision, value),
        };
        slot.revision = self.0.commit(write).await?;
        Ok(())
    }
}
