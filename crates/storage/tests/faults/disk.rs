//! A disk that can lose power, fill up, and forget what was not synced.

use std::{
    collections::{HashMap, HashSet},
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use k3_storage::file::directory::{StoreDirectory, StoreFile};
use parking_lot::{Mutex, MutexGuard};
use rand::{Rng, RngExt};

/// The disk itself, which outlives the programs that mount it.
#[derive(Default)]
pub(crate) struct SimulatedDisk {
    files: Mutex<HashMap<String, Arc<Mutex<DiskContent>>>>,
    /// How many syncs have succeeded.
    syncs: AtomicU64,
    /// Writes and syncs until something fails; `u64::MAX` for never.
    good_for: AtomicU64,
    failure: Mutex<DiskFailure>,
    /// What the disk reports is free, whatever is true.
    said_free: Mutex<Option<u64>>,
}

/// What fails when `good_for` has run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DiskFailure {
    /// Everything fails, for ever.
    #[default]
    PowerLoss,
    /// Writes fail where the disk has no space yet, and succeed where something was written before,
    /// as on a real one.
    Full,
    /// Syncs fail; the rest continues. What was to be synced is in memory only from then on, as with Linux: no later sync
    /// writes it.
    SyncFails,
}

#[derive(Clone, Default)]
struct DiskContent {
    /// What a program reads.
    seen: Vec<u8>,
    /// What survives a power loss for certain.
    safe: Vec<u8>,
    /// What has been done since `safe`.
    unsafe_yet: Vec<PendingChange>,
    /// The blocks that have space on the disk.
    blocks: HashSet<u64>,
}

const BLOCK: u64 = 4096;

#[derive(Clone)]
enum PendingChange {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

/// A disk as a store sees it.
#[derive(Clone)]
pub(crate) struct MountedDisk(Arc<SimulatedDisk>);

struct FileHandle {
    disk: Arc<SimulatedDisk>,
    content: Arc<Mutex<DiskContent>>,
}

// --- SimulatedDisk ---

impl SimulatedDisk {
    pub(crate) fn new() -> Arc<Self> {
        let disk = Self::default();
        disk.good_for.store(u64::MAX, Ordering::SeqCst);
        Arc::new(disk)
    }

    /// Something fails after so many more writes and syncs.
    pub(crate) fn fail_after(&self, operations: u64, failure: DiskFailure) {
        *self.failure.lock() = failure;
        self.good_for.store(operations, Ordering::SeqCst);
    }

    /// Nothing fails from now on.
    pub(crate) fn mend(&self) {
        self.good_for.store(u64::MAX, Ordering::SeqCst);
    }

    /// Reports that so much is free, or reports the truth again: there is plenty.
    pub(crate) fn say_free(&self, bytes: Option<u64>) {
        *self.said_free.lock() = bytes;
    }

    /// The length of a file.
    pub(crate) fn len(&self, name: &str) -> usize {
        lock(&self.files)
            .get(name)
            .map_or(0, |content| lock(content).seen.len())
    }

    /// How many writes and syncs there have been since `fail_after`, which must not have arrived.
    pub(crate) fn operations_of(&self, operations: u64) -> u64 {
        operations - self.good_for.load(Ordering::SeqCst)
    }

    /// Flips bits of a byte of a file.
    pub(crate) fn flip(&self, name: &str, at: usize, bits: u8) {
        let files = lock(&self.files);
        let mut content = lock(&files[name]);
        content.seen[at] ^= bits;
        content.safe[at] ^= bits;
    }

    /// What a program reads from a file.
    pub(crate) fn text(&self, name: &str) -> String {
        let files = lock(&self.files);
        String::from_utf8_lossy(&lock(&files[name]).seen).into_owned()
    }

    /// Replaces a file with that of another disk.
    pub(crate) fn restore(&self, name: &str, backup: &Self) {
        let content = lock(&lock(&backup.files)[name]).clone();
        lock(&self.files).insert(name.to_owned(), Arc::new(Mutex::new(content)));
    }

    /// Removes a file.
    pub(crate) fn lose(&self, name: &str) {
        lock(&self.files).remove(name);
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::SeqCst)
    }

    /// The disk as it is found after the power returned: of what was not synced, any part may have
    /// reached it, in any order, and the last piece may be torn.
    pub(crate) fn after_power_loss(&self, rng: &mut impl Rng) -> Arc<Self> {
        let found = Self::new();
        for (name, content) in &*lock(&self.files) {
            let content = lock(content);
            let mut safe = content.safe.clone();
            for change in &content.unsafe_yet {
                match rng.random_range(0..4) {
                    0 => {}
                    1 => change.torn(rng).apply(&mut safe),
                    _ => change.apply(&mut safe),
                }
            }
            let content = DiskContent {
                seen: safe.clone(),
                safe,
                ..DiskContent::default()
            };
            lock(&found.files).insert(name.clone(), Arc::new(Mutex::new(content)));
        }
        found
    }

    /// Counts an operation, and fails it if its time has arrived.
    fn operate(&self, kind: DiskOperation) -> io::Result<()> {
        let next = |left: u64| {
            if left == u64::MAX {
                left
            } else {
                left.saturating_sub(1)
            }
        };
        let before = self
            .good_for
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| Some(next(left)));
        if before.unwrap() > 0 {
            return Ok(());
        }
        match (*self.failure.lock(), kind) {
            (DiskFailure::PowerLoss, _) => Err(io::Error::other("the power was lost")),
            (DiskFailure::Full, DiskOperation::Grow) => Err(io::ErrorKind::StorageFull.into()),
            (DiskFailure::SyncFails, DiskOperation::Sync) => Err(io::Error::other("the disk did not sync")),
            _ => Ok(()),
        }
    }

    /// Fails after the power loss: a program without power reads nothing either.
    fn powered(&self) -> io::Result<()> {
        let is_lost = self.good_for.load(Ordering::SeqCst) == 0;
        if is_lost && *self.failure.lock() == DiskFailure::PowerLoss {
            return Err(io::Error::other("the power was lost"));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DiskOperation {
    /// A write to where nothing was.
    Grow,
    /// A write over what was there.
    Write,
    Sync,
}

impl PendingChange {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::SetLen(len) => bytes.resize(usize::try_from(*len).unwrap(), 0),
            Self::Write(offset, data) => {
                let offset = usize::try_from(*offset).unwrap();
                if bytes.len() < offset + data.len() {
                    bytes.resize(offset + data.len(), 0);
                }
                bytes[offset..offset + data.len()].copy_from_slice(data);
            }
        }
    }

    /// The blocks it touches.
    fn blocks(&self) -> impl Iterator<Item = u64> + use<> {
        match self {
            // The file gets longer, and takes space only where it is written.
            Self::SetLen(_) => 0..0,
            Self::Write(offset, data) => offset / BLOCK..(offset + data.len() as u64).div_ceil(BLOCK),
        }
    }

    /// The change as far as it got: whole sectors.
    fn torn(&self, rng: &mut impl Rng) -> Self {
        match self {
            Self::SetLen(len) => Self::SetLen(*len),
            Self::Write(offset, data) => {
                let sectors = rng.random_range(0..=data.len() / 512);
                Self::Write(*offset, data[..sectors * 512].to_vec())
            }
        }
    }
}

// --- MountedDisk ---

impl MountedDisk {
    pub(crate) fn new(disk: &Arc<SimulatedDisk>) -> Self {
        Self(Arc::clone(disk))
    }
}

impl fmt::Debug for MountedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a simulated disk")
    }
}

impl StoreDirectory for MountedDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn StoreFile>> {
        self.0.powered()?;
        let content = Arc::clone(lock(&self.0.files).entry(name.to_owned()).or_default());
        Ok(Box::new(FileHandle {
            disk: Arc::clone(&self.0),
            content,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.operate(DiskOperation::Sync)?;
        let mut files = lock(&self.0.files);
        let content = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.powered()?;
        lock(&self.0.files).remove(name);
        Ok(())
    }

    fn copy(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.operate(DiskOperation::Sync)?;
        let mut files = lock(&self.0.files);
        let seen = lock(files.get(from).ok_or(io::ErrorKind::NotFound)?).seen.clone();
        let content = DiskContent {
            safe: seen.clone(),
            seen,
            ..DiskContent::default()
        };
        files.insert(to.to_owned(), Arc::new(Mutex::new(content)));
        Ok(())
    }

    fn free_space(&self) -> io::Result<u64> {
        self.0.powered()?;
        Ok(self.0.said_free.lock().unwrap_or(1 << 40))
    }

    fn location(&self) -> String {
        "the simulated disk".to_owned()
    }

    fn release(&self) {}
}

// --- FileHandle ---

impl fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a file on a simulated disk")
    }
}

impl FileHandle {
    fn change(&self, change: PendingChange) -> io::Result<()> {
        let mut content = lock(&self.content);
        let needs_space = change.blocks().any(|block| !content.blocks.contains(&block));
        self.disk.operate(if needs_space {
            DiskOperation::Grow
        } else {
            DiskOperation::Write
        })?;
        content.blocks.extend(change.blocks());
        change.apply(&mut content.seen);
        content.unsafe_yet.push(change);
        Ok(())
    }
}

impl StoreFile for FileHandle {
    fn len(&self) -> io::Result<u64> {
        self.disk.powered()?;
        Ok(lock(&self.content).seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.powered()?;
        let content = lock(&self.content);
        let offset = usize::try_from(offset).unwrap();
        let bytes = content
            .seen
            .get(offset..offset + out.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(PendingChange::SetLen(len))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(PendingChange::Write(offset, data.to_vec()))
    }

    fn sync(&self) -> io::Result<()> {
        let mut content = lock(&self.content);
        if let Err(error) = self.disk.operate(DiskOperation::Sync) {
            if *self.disk.failure.lock() == DiskFailure::SyncFails {
                content.unsafe_yet.clear();
            }
            return Err(error);
        }
        let changes = std::mem::take(&mut content.unsafe_yet);
        for change in changes {
            change.apply(&mut content.safe);
        }
        self.disk.syncs.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn forget_cached(&self) -> io::Result<()> {
        self.disk.powered()?;
        let mut content = lock(&self.content);
        let mut seen = content.safe.clone();
        for change in &content.unsafe_yet {
            change.apply(&mut seen);
        }
        content.seen = seen;
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
