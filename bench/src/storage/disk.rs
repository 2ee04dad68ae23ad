//! What the disk can do at best, with nothing of a store in the way.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    sync::mpsc,
    time::Duration,
};

use bytes::{BufMut, Bytes};
use serde::Serialize;
use tokio::{sync::oneshot, time::Instant};

use super::load::{Target, WrittenKey};
use crate::{
    BenchError,
    choices::BenchEffort,
    latency::{Latencies, Percentiles},
};

const TIME: Duration = Duration::from_secs(5);

/// How often one can append 4 KiB and wait for the disk.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct SyncRate {
    pub(crate) syncs_per_second: f64,
    pub(crate) latency: Percentiles,
}

/// An append-only log with group commit and nothing else: the least that a durable store does. It
/// ends when it is dropped.
pub(crate) struct BareLog {
    records: mpsc::Sender<(Vec<u8>, WriteResult)>,
}

type WriteResult = oneshot::Sender<Result<(), String>>;

/// Measures the disk alone.
pub(crate) fn sync_rate(dir: &Path, effort: BenchEffort) -> Result<SyncRate, BenchError> {
    let mut file = File::create(dir.join("syncs"))?;
    let block = [0x5a; 4096];
    let mut latencies = Latencies::default();
    let start = Instant::now();
    while start.elapsed() < effort.of(TIME) {
        let before = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        latencies.add(before.elapsed());
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let count = latencies.count() as f64;
    Ok(SyncRate {
        syncs_per_second: count / start.elapsed().as_secs_f64(),
        latency: latencies.percentiles(),
    })
}

// --- BareLog ---

impl BareLog {
    pub(crate) fn create(path: &Path) -> Result<Self, BenchError> {
        let file = File::create_new(path)?;
        let (records, waiting) = mpsc::channel();
        std::thread::Builder::new()
            .name("bare-log".into())
            .spawn(move || append(file, &waiting))?;
        Ok(Self { records })
    }
}

impl Target for BareLog {
    async fn commit(&self, slot: &mut WrittenKey, value: Bytes) -> Result<(), BenchError> {
        let mut record = Vec::with_capacity(slot.key.len() + value.len() + 8);
        record.put_u32_le(u32::try_from(slot.key.len())?);
        record.put_u32_le(u32::try_from(value.len())?);
        record.put_slice(slot.key.as_bytes());
        record.put_slice(&value);
        let (answer, answered) = oneshot::channel();
        self.records.send((record, answer))?;
        Ok(answered.await??)
    }
}

/// Writes all records that wait, syncs once, and answers.
fn append(mut file: File, waiting: &mpsc::Receiver<(Vec<u8>, WriteResult)>) {
    let mut group = Vec::new();
    while let Ok((record, answer)) = waiting.recv() {
        group.extend(record);
        let mut answers = vec![answer];
        for (record, answer) in waiting.try_iter() {
            group.extend(record);
            answers.push(answer);
        }
        let outcome = write(&mut file, &group).map_err(|error| error.to_string());
        group.clear();
        for answer in answers {
            // Whoever no longer waits needs no answer.
            let _ = answer.send(outcome.clone());
        }
    }
}

fn write(file: &mut File, group: &[u8]) -> io::Result<()> {
    file.write_all(group)?;
    file.sync_data()
}
