//! A lone writer beside the bare disk, in turns: a disk that others use is not the same from one second
//! to the next, so the two are only comparable when they share its moods.

use std::{fs::File, io::Write as _, path::Path, sync::Arc, time::Duration};

use k3_storage::{Key, Store, Write};
use serde::Serialize;
use tokio::time::Instant;

use super::load::VALUE_BYTES;
use crate::{BenchError, choices::BenchEffort};

const TURNS: u32 = 20;
const TIME: Duration = Duration::from_secs(8);

/// How often the disk syncs alone, and how often the store commits, over the same stretch of time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LoneWriter {
    pub(crate) syncs_per_second: f64,
    pub(crate) commits_per_second: f64,
}

/// Measures both in turns.
pub(crate) async fn measure(
    dir: &Path,
    store: &Arc<dyn Store>,
    effort: BenchEffort,
) -> Result<LoneWriter, BenchError> {
    let mut file = File::create(dir.join("turns"))?;
    let block = [0x5a; 4096];
    let key = Key::try_new("/bench/lone")?;
    let mut revision = store
        .commit(Write::create(key.clone(), vec![0; VALUE_BYTES]))
        .await?;
    let turn = effort.of(TIME) / (2 * TURNS);
    let mut syncs = Pace::default();
    let mut commits = Pace::default();
    for _ in 0..TURNS {
        let start = Instant::now();
        while start.elapsed() < turn {
            file.write_all(&block)?;
            file.sync_data()?;
            syncs.count += 1;
        }
        syncs.time += start.elapsed();
        let start = Instant::now();
        while start.elapsed() < turn {
            let write = Write::update(key.clone(), revision, vec![1; VALUE_BYTES]);
            revision = store.commit(write).await?;
            commits.count += 1;
        }
        commits.time += start.elapsed();
    }
    Ok(LoneWriter {
        syncs_per_second: syncs.per_second(),
        commits_per_second: commits.per_second(),
    })
}

#[derive(Default)]
struct Pace {
    count: u32,
    time: Duration,
}

impl Pace {
    fn per_second(&self) -> f64 {
        f64::from(self.count) / self.time.as_secs_f64()
    }
}
