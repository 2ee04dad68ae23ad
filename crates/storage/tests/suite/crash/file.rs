//! A process with a file store is killed periodically, at any instant.

use std::{os::unix::fs::MetadataExt, time::Duration};

use k3_storage::{Change, Event, Page, Prefix, Revision};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tempfile::TempDir;

use super::{
    CYCLES_VARIABLE,
    address::Address,
    ledger::WriteLedger,
    process::{ChildJob, ChildProcess},
    protocol::REQUESTS,
};
use crate::{
    backend::run_within,
    history::{CommitTimeline, check},
    properties::seed,
    store_ext::StoreExt,
};

/// How often the process is killed, if the environment does not say.
const CYCLES: u64 = 100;
/// Cycles whose history is decided as one.
const CHAPTER: u64 = 20;
/// For each cycle, far more than it takes.
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn no_acknowledged_write_is_lost_when_the_process_is_killed() {
    let cycles = seed::number(CYCLES_VARIABLE).unwrap_or(CYCLES);
    let limit = PATIENCE * u32::try_from(cycles).unwrap();
    seed::with_seed(|seed| run_within(limit, kill_repeatedly(cycles, seed)));
}

/// What is known of the store between two lives of the process.
struct FileState {
    ledger: WriteLedger,
    /// Every commit since the chapter began, and before them one for each entry that was there then.
    log: Vec<Event>,
    /// Where the store stood when it was last looked at; before that, how far it was compacted.
    stands: Revision,
    compacted: Revision,
    /// Which file it was, and how often another has replaced it.
    file: u64,
    shrunk: u32,
}

async fn kill_repeatedly(cycles: u64, seed: u64) {
    let directory = TempDir::new().unwrap();
    let address = Address::File {
        directory: directory.path().to_owned(),
    };
    let mut random = StdRng::seed_from_u64(seed);
    let mut known = FileState {
        ledger: WriteLedger::default(),
        log: Vec::new(),
        stands: Revision::FIRST,
        compacted: Revision::FIRST,
        file: 0,
        shrunk: 0,
    };
    for cycle in 1..=cycles {
        live(&address, cycle, &mut known, &mut random).await;
        look(&address, &mut known).await;
        if cycle % CHAPTER == 0 || cycle == cycles {
            let result = check(known.ledger.operations(), &known.log);
            result.unwrap_or_else(|violation| panic!("after {cycle} cycles: {violation}"));
            known.turn_the_page();
        }
        // A file that is shrunk is a new one.
        let file = directory.path().join("store.redb").metadata().unwrap().ino();
        known.shrunk += u32::from(file != known.file && known.file != 0);
        known.file = file;
    }
    // The test was one: many writes were acknowledged, and the file shrank while they continued.
    let written = known.ledger.acknowledged();
    assert!(
        written as u64 > 10 * cycles,
        "only {written} writes in {cycles} cycles"
    );
    let shrunk = known.shrunk;
    assert!(
        shrunk > 0 || cycles < CYCLES,
        "the file was never shrunk in {cycles} cycles"
    );
}

// --- Known ---

impl FileState {
    /// Begins a chapter: of all that was before, only what is there now still matters. Any number of
    /// cycles fits in memory then.
    fn turn_the_page(&mut self) {
        let range = CommitTimeline::new(&self.log).range(&Prefix::all(), &Page::all(), self.stands);
        self.ledger.begin_with(&range.entries);
        let there = range.entries.into_iter().map(|entry| Event {
            revision: entry.revision,
            key: entry.key,
            change: Change::Created(entry.value),
        });
        self.log = there.collect();
        self.log.sort_by_key(|event| event.revision);
    }
}

/// Lets the process run for a moment, and kills it.
async fn live(address: &Address, cycle: u64, known: &mut FileState, random: &mut StdRng) {
    let job = ChildJob::Write {
        first: cycle * REQUESTS,
        // Not what the log was not read for yet.
        compact: Some((known.compacted, known.stands)),
    };
    let mut process = ChildProcess::start(address, &job);
    if random.random_bool(0.2) {
        // While it opens the store, or before.
        let moment = Duration::from_micros(random.random_range(0..60_000));
        process
            .hear(moment, |message| known.ledger.note(0, message))
            .await;
    } else {
        // In the middle of its work, however slow that is.
        let enough = known.ledger.acknowledged() + random.random_range(0..120);
        let ready = process.message().await;
        known.ledger.note(0, ready);
        while known.ledger.acknowledged() < enough {
            let message = process.message().await;
            known.ledger.note(0, message);
        }
        let moment = Duration::from_micros(random.random_range(0..3_000));
        process
            .hear(moment, |message| known.ledger.note(0, message))
            .await;
    }
    for message in process.kill().await {
        known.ledger.note(0, message);
    }
    known.ledger.end(0);
}

/// Opens the store after a death, and compares it with what is known.
async fn look(address: &Address, known: &mut FileState) {
    let store = address.open().await.unwrap();
    let stands = store.stands().await;
    let received = known.ledger.known();
    assert!(
        stands >= received,
        "the store is at {stands}, but {received} was acknowledged"
    );
    assert!(
        stands >= known.stands,
        "the store regressed from {} to {stands}",
        known.stands
    );

    let mut watch = store.follow("", known.stands).await;
    let events = watch.upto(stands).await;
    let received: Vec<_> = events.iter().map(|event| event.revision.get()).collect();
    let all: Vec<_> = (known.stands.get() + 1..=stands.get()).collect();
    assert_eq!(received, all, "the log has a gap");
    known.log.extend(events);

    let timeline = CommitTimeline::new(&known.log);
    let expected = timeline.range(&Prefix::all(), &Page::all(), stands);
    assert!(store.list("").await == expected, "the state differs from the log");
    known.compacted = known.stands;
    known.stands = stands;
    store.close().await;
}
