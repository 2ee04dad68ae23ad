//! How long a file store takes to open.

use std::{path::Path, sync::Arc, time::Duration};

use k3_storage::{
    Page, Prefix, Store,
    file::{FileOptions, FileStore, RepairMode},
};
use serde::Serialize;
use tokio::time::Instant;

use super::load::{prefill, slots_under};
use crate::{BenchError, choices::BenchEffort};

/// Objects in the store.
const OBJECTS: u32 = 50_000;

/// One way to find the store.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OpenRow {
    pub(crate) objects: usize,
    pub(crate) repair: &'static str,
    /// How the last process ended.
    pub(crate) after: &'static str,
    /// Until the first read was answered.
    pub(crate) ms: f64,
}

/// Opens stores that were closed, and stores whose process was killed.
pub(crate) async fn measure(dir: &Path, effort: BenchEffort) -> Result<Vec<OpenRow>, BenchError> {
    let mut rows = Vec::new();
    for (repair, name) in [(RepairMode::Scan, "scan"), (RepairMode::Record, "record")] {
        let directory = dir.join(name);
        let copy = dir.join(format!("{name}-copy"));
        let options = |directory: &Path| FileOptions {
            repair,
            ..FileOptions::new(directory)
        };
        let objects = effort.of(OBJECTS) as usize;
        let store: Arc<dyn Store> = FileStore::open(options(&directory)).await?;
        prefill(&store, slots_under("/registry/pods/default", objects)).await?;
        // What `kill -9` leaves is what is in the directory now.
        copy_directory(&directory, &copy)?;
        store.close().await;
        drop(store);
        for (directory, after) in [(&copy, "crash"), (&directory, "close")] {
            let took = open(options(directory), objects).await?;
            rows.push(OpenRow {
                objects,
                repair: name,
                after,
                ms: took.as_secs_f64() * 1e3,
            });
        }
    }
    Ok(rows)
}

async fn open(options: FileOptions, objects: usize) -> Result<Duration, BenchError> {
    let start = Instant::now();
    let store = FileStore::open(options).await?;
    store.range(&Prefix::all(), Page::first(1)).await?;
    let took = start.elapsed();
    let found = store.range(&Prefix::all(), Page::all()).await?.entries.len();
    if found != objects {
        return Err(format!("the store opened with {found} objects of {objects}").into());
    }
    store.close().await;
    Ok(took)
}

fn copy_directory(from: &Path, to: &Path) -> Result<(), BenchError> {
    std::fs::create_dir_all(to)?;
    for file in std::fs::read_dir(from)? {
        let file = file?;
        std::fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}
