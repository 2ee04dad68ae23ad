//! The writer thread: only this thread changes the file.
//!
//! It applies all waiting writes in one transaction, syncs once (group commit), publishes the events and reports the results.
//! What is synced is the journal or, without one, the file.
//! The next group gathers during the sync; a single write starts immediately.

use std::{
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use redb::ReadableDatabase;
use tokio::{sync::oneshot, time::Instant};

use super::{
    compaction,
    engine::{EngineError, Open, guarded},
    group::{CommitGroup, CommittedWrite},
    import::{self, ImportStep},
    journal::{self, Journal, JournalFrame},
    mark::{CloseMark, MarkForm},
    options::RepairMode,
    shrink::{self, CompactedCopy},
    store::FileStoreShared,
    tables::{read_history_mark, write_history_mark},
};
use crate::{
    CommitError, HistoryMark, ImportError, Operation, Revision, StoreError, Write,
    history_budget::HistoryBudget,
};

/// Most commits, and about the most bytes, of one transaction.
const GROUP_COMMITS: usize = 1024;
const GROUP_BYTES: usize = 8 << 20;
/// Records a transaction compacts beside its commits: few enough not to delay them by much.
const COMPACT_RECORDS: usize = 256;
/// Free space that the disk must have before values are written. Deletions may use most of it, so
/// that a full store can be emptied.
const RESERVE: u64 = 512 << 10;
const RESERVE_OF_DELETES: u64 = 64 << 10;
/// What a byte written can cost on the disk: pages are copied, and twice when nodes split.
const SPREAD: u64 = 8;

/// With less free space than this, groups are made durable in the file at once: what is in the journal needs space in the file
/// later, when its writes have been acknowledged.
const JOURNAL_SPACE: u64 = 64 << 20;
/// After how long without a write the file gets what is in the journal.
const IDLE: Duration = Duration::from_secs(5);

/// A job of the writer.
pub(super) enum WriterJob {
    Commit(Write, CommitResult<Revision, CommitError>),
    Compact(Revision, CommitResult<(), StoreError>),
    /// Replaces the mark of compactors, if it is the first of these.
    ReplaceMark(Option<HistoryMark>, HistoryMark, CommitResult<bool, StoreError>),
    /// A step of an import, identified by its token.
    Import(Arc<()>, ImportStep, CommitResult<Revision, ImportError>),
    /// A copy of the live data is ready to replace the file, or could not be made.
    CompactedCopy(Result<CompactedCopy, StoreError>),
    /// Another process asks whether writes would be taken.
    Probe(CommitResult<(), StoreError>),
    /// A reader found that the file must be opened again.
    Mend,
    Stop,
}

pub(super) type CommitResult<T, E> = oneshot::Sender<Result<T, E>>;

/// Commits, and the channels of the waiting callers.
type PendingCommits = Vec<(Write, CommitResult<Revision, CommitError>)>;

/// The state of the writer; the newest revision is in the index.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriterPosition {
    pub(super) compacted: Revision,
    /// Bytes of all records.
    pub(super) bytes: u64,
    /// Bytes of the records above `compacted` when the store was opened.
    pub(super) history_bytes: u64,
}

pub(super) struct FileWriter {
    shared: Arc<FileStoreShared>,
    jobs: mpsc::Receiver<WriterJob>,
    /// For threads that report back.
    sender: mpsc::Sender<WriterJob>,
    position: WriterPosition,
    journal: Journal,
    /// How much history is kept.
    budget: HistoryBudget,
    /// The compaction under way.
    compaction: Option<RunningCompaction>,
    /// The copy under way. While there is one, nothing is compacted, so that catching up means only
    /// adding records.
    shrinking: Option<RunningShrink>,
    /// The import begun last, the only one that may continue.
    importing: Option<Arc<()>>,
    /// A group that the file may have or not, until it can be opened again.
    unresolved: Option<AppliedGroup>,
    /// Set when the disk failed to sync: what is on it is unknown, so nothing more is written.
    failed: Option<StoreError>,
}

struct RunningCompaction {
    upto: Revision,
    waiting: Vec<CommitResult<(), StoreError>>,
}

struct RunningShrink {
    /// The callers that wait until the copy has replaced the file.
    waiting: Vec<CommitResult<(), StoreError>>,
    /// The thread that makes the copy.
    thread: Option<JoinHandle<()>>,
}

/// A group of commits, applied and not yet durable.
struct AppliedGroup {
    answers: Vec<Result<Revision, CommitError>>,
    done: CommittedWrite,
    step: Option<compaction::CompactionStep>,
}

// --- FileWriter ---

impl FileWriter {
    pub(super) fn new(
        shared: Arc<FileStoreShared>,
        (sender, jobs): (mpsc::Sender<WriterJob>, mpsc::Receiver<WriterJob>),
        position: WriterPosition,
        journal: Journal,
    ) -> Self {
        let mut budget = HistoryBudget::default();
        // Its age is unknown: it counts as young.
        budget.add(shared.index.current(), position.history_bytes, Instant::now());
        Self {
            shared,
            jobs,
            sender,
            position,
            journal,
            budget,
            compaction: None,
            shrinking: None,
            importing: None,
            unresolved: None,
            failed: None,
        }
    }

    /// Runs until it is stopped.
    pub(super) fn run(mut self) {
        loop {
            let (commits, then) = self.gather();
            if !commits.is_empty() || self.compacts_now() {
                self.commit(commits);
            }
            match then {
                None => {}
                Some(WriterJob::Commit(..)) => unreachable!("gather puts every commit into the group"),
                Some(WriterJob::Compact(upto, answer)) => self.begin_compaction(upto, answer),
                Some(WriterJob::ReplaceMark(expected, mark, answer)) => {
                    let _ = answer.send(self.replace_mark(expected, mark));
                }
                Some(WriterJob::Import(token, step, answer)) => self.import(token, step, answer),
                Some(WriterJob::CompactedCopy(copy)) => self.end_shrinking(copy),
                Some(WriterJob::Probe(answer)) => {
                    let _ = answer.send(self.admit(&[]).and_then(|()| self.check_space(RESERVE).map(drop)));
                }
                Some(WriterJob::Mend) => {
                    if let Err(error) = self.reopen() {
                        tracing::error!(%error, "cannot open the store again");
                    }
                }
                Some(WriterJob::Stop) => return self.stop(),
            }
        }
    }

    /// Waits for the copy under way, which is given up when the store is closed. The file has everything in the end.
    fn stop(mut self) {
        self.checkpoint();
        if self.journal.is_empty() && self.failed.is_none() {
            self.shared.mark.set_form(MarkForm::File);
        }
        if let Some(thread) = self.shrinking.and_then(|shrinking| shrinking.thread) {
            // It reports by a job; how it ended otherwise does not matter any more.
            let _ = thread.join();
        }
    }

    /// All commits that wait, up to a limit, and the first job behind them that is something else.
    /// Waits only if there is nothing else to do.
    fn gather(&mut self) -> (PendingCommits, Option<WriterJob>) {
        let mut commits = PendingCommits::new();
        let mut bytes = 0;
        while commits.len() < GROUP_COMMITS && bytes < GROUP_BYTES {
            let job = if commits.is_empty() && !self.compacts_now() {
                self.next_job()
            } else {
                match self.jobs.try_recv() {
                    Ok(job) => job,
                    Err(_) => break,
                }
            };
            match job {
                WriterJob::Commit(write, answer) => {
                    bytes += size(&write);
                    commits.push((write, answer));
                }
                job => return (commits, Some(job)),
            }
        }
        (commits, None)
    }

    /// Waits for a job. The journal is emptied when none arrives for a while.
    fn next_job(&mut self) -> WriterJob {
        if !self.journal.is_empty() {
            match self.jobs.recv_timeout(IDLE) {
                Ok(job) => return job,
                Err(mpsc::RecvTimeoutError::Disconnected) => return WriterJob::Stop,
                Err(mpsc::RecvTimeoutError::Timeout) => self.checkpoint(),
            }
        }
        self.jobs.recv().unwrap_or(WriterJob::Stop)
    }

    /// Makes what is in the journal durable in the file.
    fn checkpoint(&mut self) {
        if self.journal.is_empty() || self.failed.is_some() {
            return;
        }
        let Ok(open) = self.shared.engine.current() else {
            return;
        };
        let written = guarded(|| {
            let mut txn = open.database.begin_write()?;
            txn.set_quick_repair(self.shared.repair == RepairMode::Record);
            Ok(txn.commit()?)
        });
        match written {
            Ok(()) => self.journal.reset(),
            Err(engine_error) => {
                // The journal has it still.
                if let Err(error) = self.recover(engine_error, None) {
                    tracing::error!(%error, "cannot write the store's journal to its file");
                }
            }
        }
    }

    fn commit(&mut self, commits: PendingCommits) {
        let (writes, waiting): (Vec<_>, Vec<_>) = commits.into_iter().unzip();
        let answers = self
            .admit(&writes)
            .map_err(CommitError::from)
            .and_then(|()| self.transact(&writes));
        match answers {
            Ok(answers) => {
                for (waiting, answer) in waiting.into_iter().zip(answers) {
                    // The caller may have stopped waiting.
                    let _ = waiting.send(answer);
                }
                self.end_compaction_if_done();
                self.bound_history();
            }
            Err(error) => {
                for waiting in waiting {
                    let _ = waiting.send(Err(error.clone()));
                }
                // Not tried periodically: a caller that requested it will ask again.
                self.give_up_compaction(&error);
            }
        }
    }

    /// Whether the disk has space for these writes.
    fn admit(&self, writes: &[Write]) -> Result<(), StoreError> {
        self.shared.phase.check()?;
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let bytes: usize = writes.iter().map(size).sum();
        let only_deletes =
            !writes.is_empty() && writes.iter().all(|write| write.operation == Operation::Delete);
        let reserve = if only_deletes { RESERVE_OF_DELETES } else { RESERVE };
        self.check_space(reserve + SPREAD * bytes as u64).map(drop)
    }

    /// Returns the free space, if it is enough.
    fn check_space(&self, needed: u64) -> Result<u64, StoreError> {
        let directory = &self.shared.engine.directory;
        let full = |message| StoreError::Full {
            location: directory.location(),
            message,
        };
        match directory.free_space() {
            Ok(free) if free >= needed => Ok(free),
            Ok(free) => Err(full(format!("{free} bytes are free, {needed} are needed"))),
            Err(error) => Err(full(format!("cannot determine the free space: {error}"))),
        }
    }

    /// Applies a group and makes it durable.
    fn transact(&mut self, writes: &[Write]) -> Result<Vec<Result<Revision, CommitError>>, CommitError> {
        if self.unresolved.is_some() {
            // Its revisions may be taken.
            self.reopen()?;
        }
        let open = self.shared.engine.current()?;
        let mut applied = None;
        let group = match guarded(|| self.apply(&open, writes, &mut applied)) {
            Ok(()) => applied.expect("a transaction that ended well was applied"),
            Err(engine_error) => self.recover(engine_error, applied)?,
        };
        Ok(self.take_effect(group))
    }

    /// Publishes a group that is durable.
    fn take_effect(&mut self, group: AppliedGroup) -> Vec<Result<Revision, CommitError>> {
        let AppliedGroup { answers, done, step } = group;
        self.notify_waiters(&done);
        if let Some(step) = step {
            self.position.compacted = step.compacted;
            self.budget.compact(step.compacted);
            self.position.bytes -= step.removed;
            self.shared.index.forget(&step.deletions);
        }
        answers
    }

    /// The transaction: `applied` is set once all is in it and only the engine's commit remains.
    fn apply(
        &mut self,
        open: &Open,
        writes: &[Write],
        applied: &mut Option<AppliedGroup>,
    ) -> Result<(), EngineError> {
        let mut txn = open.database.begin_write()?;
        txn.set_quick_repair(self.shared.repair == RepairMode::Record);
        let mut group = CommitGroup::begin(&txn, &self.shared.index, self.shared.clock.system_time())?;
        let mut answers = Vec::with_capacity(writes.len());
        for write in writes {
            answers.push(group.apply(write)?);
        }
        let (done, frame) = group.finish();
        let step = match &self.compaction {
            Some(compaction) if self.compacts_now() => Some(compaction::step(
                &txn,
                self.position.compacted,
                compaction.upto,
                COMPACT_RECORDS,
            )?),
            _ => None,
        };
        let changes = step.is_some() || !done.events.is_empty();
        // A compaction that is undone by a crash while the server continues would leave records that should be compacted.
        let is_journaled = step.is_none() && changes && self.is_journaled(&frame);
        *applied = Some(AppliedGroup { answers, done, step });
        if !changes {
            txn.abort()?;
        } else if is_journaled {
            txn.set_durability(redb::Durability::None)?;
            let durability = self.shared.engine.durability();
            self.journal.append(frame, durability).map_err(redb::Error::Io)?;
            txn.commit()?;
        } else {
            txn.commit()?;
            self.journal.reset();
        }
        Ok(())
    }

    /// Whether a group is made durable in the journal.
    fn is_journaled(&mut self, frame: &JournalFrame) -> bool {
        if !self.journal.has_space(frame) || self.check_space(JOURNAL_SPACE).is_err() {
            return false;
        }
        let was_ready = self.journal.is_ready();
        let durability = self.shared.engine.durability();
        if !self.journal.count_group(durability) {
            return false;
        }
        if was_ready {
            return true;
        }
        // An older program would not know of the journal, and miss what is only there.
        let form = MarkForm::FileAndJournal(self.journal.id());
        let mark = CloseMark {
            closed_at: self.shared.index.current(),
            form,
        };
        match mark.write(&*self.shared.engine.directory, durability) {
            Ok(()) => {
                self.shared.mark.set_form(form);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "cannot note that the store has a journal");
                self.journal.release();
                false
            }
        }
    }

    /// Begins to compact the oldest history when there is too much of it.
    fn bound_history(&mut self) {
        let Some(upto) = self.budget.take_excess(Instant::now()) else {
            return;
        };
        match &mut self.compaction {
            Some(compaction) => compaction.upto = compaction.upto.max(upto),
            None if upto <= self.position.compacted => {}
            None => {
                self.compaction = Some(RunningCompaction {
                    upto,
                    waiting: Vec::new(),
                });
            }
        }
    }

    /// Publishes durable commits.
    fn notify_waiters(&mut self, done: &CommittedWrite) {
        self.position.bytes += done.bytes;
        if let Some(last) = done.events.last() {
            self.budget.add(last.revision, done.bytes, Instant::now());
        }
        self.shared.index.follow(&done.events);
        for (event, expiry) in done.events.iter().zip(&done.expiries) {
            match expiry {
                Some(expiry) => {
                    let at = Instant::now() + expiry.ttl;
                    self.shared.deadlines.set(event.key.clone(), event.revision, at);
                }
                None => self.shared.deadlines.clear(&event.key),
            }
        }
        self.shared.feed.publish(&done.events);
    }

    /// Opens the file again after a failed transaction. Returns the group if it was committed nevertheless.
    fn recover(
        &mut self,
        engine_error: EngineError,
        applied: Option<AppliedGroup>,
    ) -> Result<AppliedGroup, CommitError> {
        let error = self.shared.engine.explain(engine_error);
        tracing::error!(%error, "a write to the store failed; opening it again");
        let reopened = self.reopen();
        let Some(group) = applied else {
            // It never reached the commit, so nothing of it can be there.
            return Err(reopened.err().unwrap_or(error).into());
        };
        if self.sync_failed() {
            let error = sync_failure(&error);
            self.failed = Some(error.clone());
            return Err(CommitError::Uncertain(error));
        }
        match (reopened, group.done.events.last()) {
            (Err(error), _) => {
                self.unresolved = Some(group);
                Err(CommitError::Uncertain(error))
            }
            (Ok(newest), Some(last)) if newest >= last.revision => Ok(group),
            (Ok(_), _) => Err(error.into()),
        }
    }

    fn sync_failed(&self) -> bool {
        self.shared.engine.sync_failed() || self.journal.sync_failed()
    }

    /// Opens the file again, and reports the newest revision in it.
    fn reopen(&mut self) -> Result<Revision, StoreError> {
        let reopened = self.reopen_file();
        if self.sync_failed() && self.failed.is_none() {
            // What a failed sync leaves in the page cache looks written, and may not be.
            self.failed = Some(sync_failure(&"restarting reads the journal"));
        }
        let newest = reopened?;
        let group = self.unresolved.take();
        let is_there = |group: &AppliedGroup| {
            let last = group.done.events.last();
            last.is_some_and(|last| newest >= last.revision)
        };
        if let Some(group) = group.filter(is_there) {
            self.take_effect(group);
        }
        Ok(newest)
    }

    fn reopen_file(&mut self) -> Result<Revision, StoreError> {
        let open = match self.reopen_with(redb::Durability::Immediate) {
            // What is in the journal needs space in the file. Until there is some, reads go on without.
            Err(StoreError::Full { .. }) if !self.journal.is_empty() => {
                self.reopen_with(redb::Durability::None)?
            }
            reopened => reopened?,
        };
        let newest = guarded(|| journal::newest(&open));
        let newest = newest.map_err(|engine_error| self.shared.engine.explain(engine_error))?;
        let known = self.shared.index.current();
        if newest < known {
            let error = StoreError::Corrupt(format!("the file regressed from revision {known} to {newest}"));
            self.failed = Some(error.clone());
            return Err(error);
        }
        Ok(newest)
    }

    fn reopen_with(&mut self, durability: redb::Durability) -> Result<Arc<Open>, StoreError> {
        let repair = self.shared.repair;
        let journal = &mut self.journal;
        self.shared.engine.reopen(|open| {
            if journal.is_ready() {
                journal.replay(open, repair, durability)
            } else {
                Ok(())
            }
        })
    }

    fn compacts_now(&self) -> bool {
        self.compaction.is_some() && self.shrinking.is_none()
    }

    fn begin_compaction(&mut self, upto: Revision, answer: CommitResult<(), StoreError>) {
        let upto = upto.min(self.shared.index.current());
        if let Err(error) = self.shared.phase.check() {
            let _ = answer.send(Err(error));
        } else if let Some(compaction) = &mut self.compaction {
            compaction.upto = compaction.upto.max(upto);
            compaction.waiting.push(answer);
        } else if upto <= self.position.compacted {
            let _ = answer.send(Ok(()));
        } else {
            self.compaction = Some(RunningCompaction {
                upto,
                waiting: vec![answer],
            });
        }
    }

    fn give_up_compaction(&mut self, error: &CommitError) {
        let Some(RunningCompaction { waiting, .. }) = self.compaction.take_if(|_| self.shrinking.is_none())
        else {
            return;
        };
        let error = match error {
            CommitError::Store(error) | CommitError::Uncertain(error) => error.clone(),
            other => StoreError::Corrupt(format!("a group of commits ended with: {other}")),
        };
        for answer in waiting {
            let _ = answer.send(Err(error.clone()));
        }
    }

    /// Answers callers of a compaction that has finished; but only after the file has
    /// been shrunk, if that is worth it.
    fn end_compaction_if_done(&mut self) {
        let compacted = self.position.compacted;
        let done = self.compaction.take_if(|compaction| compaction.upto <= compacted);
        let Some(RunningCompaction { waiting, .. }) = done else {
            return;
        };
        if self.worth_shrinking() {
            let thread = shrink::start(Arc::clone(&self.shared), self.sender.clone(), None);
            self.shrinking = Some(RunningShrink { waiting, thread });
            return;
        }
        for answer in waiting {
            let _ = answer.send(Ok(()));
        }
    }

    fn worth_shrinking(&self) -> bool {
        let open = self.shared.engine.current();
        let Ok(Ok(len)) = open.map(|open| open.gate.len()) else {
            return false;
        };
        let needed = shrink::estimate(self.position.bytes);
        len > shrink::WORTH * needed && self.check_space(RESERVE + 2 * needed).is_ok()
    }

    /// Replaces the file with the copy, or lets the copy catch up again if much was written since.
    fn end_shrinking(&mut self, copy: Result<CompactedCopy, StoreError>) {
        let Some(RunningShrink { waiting, .. }) = self.shrinking.take() else {
            return;
        };
        let outcome = copy.and_then(|copy| {
            let behind = self.shared.index.current().get().saturating_sub(copy.upto.get());
            if behind > shrink::CATCH_UP_RECORDS {
                return Ok(Some(copy));
            }
            shrink::switch(&self.shared, copy).map(|()| None)
        });
        match outcome {
            Ok(Some(behind)) => {
                let thread = shrink::start(Arc::clone(&self.shared), self.sender.clone(), Some(behind));
                self.shrinking = Some(RunningShrink { waiting, thread });
                return;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "cannot shrink the store's file; it stays as it is"),
        }
        for answer in waiting {
            let _ = answer.send(Ok(()));
        }
    }

    fn replace_mark(&mut self, expected: Option<HistoryMark>, mark: HistoryMark) -> Result<bool, StoreError> {
        self.admit(&[])?;
        let open = self.shared.engine.current()?;
        let replaced = guarded(|| {
            if read_history_mark(&open.database.begin_read()?)? != expected {
                return Ok(false);
            }
            let mut txn = open.database.begin_write()?;
            txn.set_quick_repair(self.shared.repair == RepairMode::Record);
            write_history_mark(&txn, mark)?;
            txn.commit()?;
            Ok(true)
        });
        match replaced {
            Ok(replaced) => Ok(replaced),
            // No process relies on the mark, so it does not matter whether it has been written.
            Err(engine_error) => match self.recover(engine_error, None) {
                Err(CommitError::Store(error) | CommitError::Uncertain(error)) => Err(error),
                Err(error) => Err(StoreError::Corrupt(error.to_string())),
                Ok(_) => Ok(false),
            },
        }
    }

    fn import(&mut self, token: Arc<()>, step: ImportStep, answer: CommitResult<Revision, ImportError>) {
        let begins = matches!(step, ImportStep::Begin { .. } | ImportStep::Discard);
        let continues = self
            .importing
            .as_ref()
            .is_some_and(|last| Arc::ptr_eq(last, &token));
        if !begins && !continues {
            let _ = answer.send(Err(ImportError::Superseded));
            return;
        }
        if let Some(error) = &self.failed {
            let _ = answer.send(Err(error.clone().into()));
            return;
        }
        let outcome = guarded(|| {
            let open = self.shared.engine.current()?;
            import::perform(&self.shared, &open, step, self.position)
        });
        let outcome = match outcome {
            Ok(Ok(position)) => {
                self.position = position;
                self.budget = HistoryBudget::default();
                self.importing = Some(token);
                Ok(self.shared.index.current())
            }
            Ok(Err(error)) => Err(error),
            Err(engine_error) => {
                let error = self.shared.engine.explain(engine_error);
                // The import is unfinished whatever the file holds now, and reports it.
                Err(self.reopen().err().unwrap_or(error).into())
            }
        };
        let _ = answer.send(outcome);
    }
}

/// The error after a sync has failed.
fn sync_failure(error: &impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable {
        backend: "file",
        message: format!("the disk failed to sync, restart after checking it: {error}"),
        source: None,
    }
}

fn size(write: &Write) -> usize {
    let value = match &write.operation {
        Operation::Put { value, .. } => value.len(),
        Operation::Delete => 0,
    };
    write.key.len() + value
}
