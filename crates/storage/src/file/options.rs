//! How a file store is opened.

use std::path::PathBuf;

use k3_task::Clock;

/// Settings of a file store.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// The directory, made if it is not there. One process at a time uses it.
    pub directory: PathBuf,
    /// When a commit is acknowledged. Default: [`Durability::Synced`].
    pub durability: Durability,
    /// How an unclean end is prepared for. Default: [`RepairMode::Scan`].
    pub repair: RepairMode,
    /// Bytes of the file kept in memory. Default: 8 MiB. Reads of the API server are from its own
    /// cache; this one serves the writer, and more of it buys little.
    pub cache_bytes: usize,
    /// How many groups of commits make a store busy enough for a journal, if it has none from before. Default: 256. To
    /// allocate one takes about as long as that many groups save.
    pub journal_after: u64,
    /// The time of day, for expiry deadlines.
    pub clock: Clock,
}

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After it has reached the disk: it survives a power loss.
    Synced,
    /// After it has reached the operating system: it survives `kill -9` of the process, but a power
    /// loss may take the last writes, or the whole store. Only for clusters that are thrown away.
    Relaxed,
}

/// How an unclean end is prepared for (decision 002 has the results).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairMode {
    /// The next open checks the whole file.
    Scan,
    /// Each commit records what is needed to open at once, for the price of a second sync.
    Record,
}

// --- FileOptions ---

impl FileOptions {
    /// The defaults, in this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            durability: Durability::Synced,
            repair: RepairMode::Scan,
            cache_bytes: 8 << 20,
            journal_after: 256,
            clock: Clock::system(),
        }
    }
}
