//! What a store weighs, on disk and in memory.

use std::{os::unix::fs::MetadataExt, path::Path, process::Command, sync::Arc, time::Duration};

use k3_storage::{
    Store,
    file::{FileOptions, FileStore},
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{
    backend::Service,
    load::{VALUE_BYTES, fill, prefill, slots_under, update_all},
};
use crate::{
    BenchError,
    choices::{Backend, BenchEffort},
    flags::WeighOptions,
    memory::resident,
};

/// Objects in memory.
const OBJECTS: u32 = 50_000;
/// Keys on disk, and how often each is updated.
const KEYS: u32 = 20_000;
const UPDATES: usize = 5;
/// How long the size may go on changing after a compaction.
const SETTLE: Duration = Duration::from_secs(30);

/// The size of a file store.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SizeRow {
    pub(crate) keys: usize,
    pub(crate) updates: usize,
    /// Bytes of keys and values.
    pub(crate) live_bytes: u64,
    /// Bytes the directory takes on disk, with all history.
    pub(crate) before_bytes: u64,
    /// The same after compaction, which ran while the store was open.
    pub(crate) after_bytes: u64,
}

/// The memory of a process with a store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MemoryRow {
    pub(crate) target: String,
    pub(crate) objects: usize,
    /// Resident memory of the process before it filled the store, and after.
    pub(crate) own_before_bytes: u64,
    pub(crate) own_after_bytes: u64,
    /// That of the server, after.
    pub(crate) server_bytes: u64,
}

/// Measures a file store after many updates.
pub(crate) async fn size(directory: &Path, effort: BenchEffort) -> Result<SizeRow, BenchError> {
    let store: Arc<dyn Store> = FileStore::open(FileOptions::new(directory)).await?;
    let keys = effort.of(KEYS) as usize;
    let slots = prefill(&store, slots_under("/registry/pods/default", keys)).await?;
    let slots = update_all(&store, slots, UPDATES).await?;
    let before_bytes = directory_bytes(directory)?;
    store.compact(store.current_revision().await?).await?;
    let after_bytes = settled(directory).await?;
    let key_bytes: usize = slots.iter().map(|slot| slot.key.len()).sum();
    store.close().await;
    Ok(SizeRow {
        keys,
        updates: keys * UPDATES,
        live_bytes: (key_bytes + keys * VALUE_BYTES) as u64,
        before_bytes,
        after_bytes,
    })
}

/// The size of the directory once it has not changed for a while: space is given back in the background.
async fn settled(directory: &Path) -> Result<u64, BenchError> {
    let start = Instant::now();
    let mut size = directory_bytes(directory)?;
    let mut since = start;
    while since.elapsed() < Duration::from_secs(3) && start.elapsed() < SETTLE {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = directory_bytes(directory)?;
        if now != size {
            (size, since) = (now, Instant::now());
        }
    }
    Ok(size)
}

/// The bytes the files of a directory take on disk.
fn directory_bytes(directory: &Path) -> Result<u64, BenchError> {
    let mut bytes = 0;
    for file in std::fs::read_dir(directory)? {
        // A copy that took the place of the file is not an error.
        if let Ok(found) = file?.metadata() {
            bytes += found.blocks() * 512;
        }
    }
    Ok(bytes)
}

/// Measures a store in a process of its own: this one has held others before.
pub(crate) fn memory(
    backend: Backend,
    directory: &Path,
    effort: BenchEffort,
) -> Result<MemoryRow, BenchError> {
    let output = Command::new(std::env::current_exe()?)
        .arg("weigh")
        .arg(backend.name())
        .arg(directory)
        .arg(effort.of(OBJECTS).to_string())
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("the process that weighs {} failed", backend.name()).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// What that process does: fills the store, and prints what it weighs.
pub(crate) async fn weigh(options: &WeighOptions) -> Result<(), BenchError> {
    let service = Service::start(options.backend, &options.dir.join(options.backend.name()))?;
    let own_before_bytes = resident("self")?;
    let store = service.open().await?;
    fill(&store, slots_under("/registry/pods/default", options.objects)).await?;
    let server_bytes = match service.pid() {
        Some(pid) => resident(&pid.to_string())?,
        None => 0,
    };
    let row = MemoryRow {
        target: options.backend.name().to_owned(),
        objects: options.objects,
        own_before_bytes,
        own_after_bytes: resident("self")?,
        server_bytes,
    };
    println!("{}", serde_json::to_string(&row)?);
    store.close().await;
    Ok(())
}
