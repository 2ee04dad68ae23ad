//! Whether a history is linearizable: whether each operation can have happened at one moment between
//! its question and its answer, all of them in one order.
//!
//! Commits are ordered by their revisions, so only the reads are to be placed. A read can be placed at
//! any revision at which what it saw was true, but not below what was known to anyone before it was
//! requested (the floor), nor at or above a commit that was requested only after it was answered (the ceiling).
//! Placing each as low as it can be leaves the most space for those that follow, so when that fails,
//! nothing else would have worked.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use k3_storage::{Change, Event, Operation as Effect, Precondition, Revision, Write};

use super::{
    operation::{Operation, OperationResult},
    timeline::{CommitTimeline, NEVER},
};

/// How a history breaks the promises.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HistoryViolation {
    #[error("the log is not in the order of its revisions: {0:?} follows {1}")]
    Disorder(Event, Revision),
    #[error("two writes were acknowledged with revision {0}")]
    Reused(Revision),
    #[error("an acknowledged write is not in the log: {0:?}")]
    Lost(Operation),
    #[error("the log contradicts the writer of {0:?}: {1:?}")]
    Altered(Operation, Event),
    #[error("{0:?} was never written")]
    Unexplained(Event),
    #[error("the write expected another state than it found at its revision {1}: {0:?}")]
    Illegal(Write, Revision),
    #[error("a conflict was reported where the expected state was there: {0:?}")]
    Unjustified(Operation),
    #[error("what was read never was: {0:?}")]
    Phantom(Operation),
    #[error(
        "what was read was true only before revision {1}, which was known before it was requested: {0:?}"
    )]
    Stale(Operation, Revision),
    #[error("a read returned a value before its write: {0:?}")]
    Premature(Operation),
    #[error("a commit has a lower revision than {1}, which was known before it was requested: {0:?}")]
    Backwards(Operation, Revision),
    #[error("a range is not the state at its revision: {0:?}, but the state is {1:?}")]
    Torn(Operation, k3_storage::Range),
}

/// What is found, or how the promises are broken.
type CheckResult<T = ()> = Result<T, Box<HistoryViolation>>;

/// Checks the history of a store that was initially empty against the log of all its commits.
pub(crate) fn check(operations: &[Operation], log: &[Event]) -> CheckResult {
    for pair in log.windows(2) {
        if pair[1].revision <= pair[0].revision {
            return Err(HistoryViolation::Disorder(pair[1].clone(), pair[0].revision).into());
        }
    }
    let timeline = CommitTimeline::new(log);
    let writers = explain(operations, log, &timeline)?;
    let ceilings = Ceilings::new(operations, log, &writers);
    assign_linearization_points(operations, &timeline, &writers, &ceilings)
}

/// Finds for each event of the log the operation that caused it: revision to index.
fn explain(
    operations: &[Operation],
    log: &[Event],
    timeline: &CommitTimeline,
) -> CheckResult<BTreeMap<Revision, usize>> {
    let mut acknowledged: HashMap<Revision, usize> = HashMap::new();
    let mut uncertain: Vec<usize> = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        match &operation.done {
            OperationResult::Committed { revision, .. }
                if acknowledged.insert(*revision, index).is_some() =>
            {
                return Err(HistoryViolation::Reused(*revision).into());
            }
            OperationResult::Uncertain { .. } => uncertain.push(index),
            _ => {}
        }
    }
    uncertain.sort_by_key(|index| operations[*index].requested);
    let mut writers = BTreeMap::new();
    for event in log {
        let before = timeline.held(&event.key, Revision::new(event.revision.get() - 1));
        let found = before.as_ref().map(|(revision, _)| *revision);
        let index = if let Some(index) = acknowledged.remove(&event.revision) {
            let OperationResult::Committed { write, .. } = &operations[index].done else {
                unreachable!("only commits are acknowledged");
            };
            if !causes(write, event, found) {
                return Err(HistoryViolation::Altered(operations[index].clone(), event.clone()).into());
            }
            if !expects(write.precondition, found) {
                return Err(HistoryViolation::Illegal(write.clone(), event.revision).into());
            }
            index
        } else {
            let candidate = uncertain.iter().position(|index| {
                let OperationResult::Uncertain { write } = &operations[*index].done else {
                    return false;
                };
                causes(write, event, found) && expects(write.precondition, found)
            });
            let candidate = candidate.ok_or_else(|| HistoryViolation::Unexplained(event.clone()))?;
            uncertain.remove(candidate)
        };
        writers.insert(event.revision, index);
    }
    match acknowledged.into_values().min() {
        Some(index) => Err(HistoryViolation::Lost(operations[index].clone()).into()),
        None => Ok(writers),
    }
}

/// Whether the event is what the write does to a key that holds what was written at `found`.
fn causes(write: &Write, event: &Event, found: Option<Revision>) -> bool {
    let same = match (&write.operation, &event.change, found) {
        (Effect::Put { value, .. }, Change::Created(acknowledged), None)
        | (Effect::Put { value, .. }, Change::Updated(acknowledged), Some(_)) => value == acknowledged,
        (Effect::Delete, Change::Deleted, Some(_)) => true,
        _ => false,
    };
    same && write.key == event.key
}

fn expects(precondition: Precondition, found: Option<Revision>) -> bool {
    match precondition {
        Precondition::Absent => found.is_none(),
        Precondition::At(revision) => found == Some(revision),
    }
}

/// Up to which revision everything had been requested at a tick.
struct Ceilings {
    /// For each commit in order: the latest tick at which it or one before it was requested.
    requested: Vec<(u64, Revision)>,
}

/// Gives each operation its linearization point, in the order of the ticks.
fn assign_linearization_points(
    operations: &[Operation],
    timeline: &CommitTimeline,
    writers: &BTreeMap<Revision, usize>,
    ceilings: &Ceilings,
) -> CheckResult {
    let mut happened: HashMap<usize, Revision> = HashMap::new();
    happened.extend(writers.iter().map(|(revision, index)| (*index, *revision)));
    // Questions before answers of the same tick: neither was first.
    let requested = operations
        .iter()
        .enumerate()
        .map(|(index, operation)| (operation.requested, 0, index));
    let answered = operations
        .iter()
        .enumerate()
        .map(|(index, operation)| (operation.answered, 1, index));
    let mut ticks: Vec<_> = requested.chain(answered).collect();
    ticks.sort_unstable();
    let mut floors: HashMap<usize, Revision> = HashMap::new();
    let mut known = Revision::ZERO;
    for (_, answer, index) in ticks {
        let operation = &operations[index];
        if answer == 0 {
            floors.insert(index, known);
            continue;
        }
        let floor = floors[&index];
        let ceiling = ceilings.at(operation.answered);
        let linearization_point = match &operation.done {
            // It may yet happen after the answer: this makes it known to no reader.
            OperationResult::Uncertain { .. } => match happened.get(&index) {
                Some(revision) if *revision <= floor => {
                    return Err(HistoryViolation::Backwards(operation.clone(), floor).into());
                }
                _ => continue,
            },
            OperationResult::Committed { revision, .. } => {
                if *revision <= floor {
                    return Err(HistoryViolation::Backwards(operation.clone(), floor).into());
                }
                *revision
            }
            OperationResult::Conflicted { write, shown } => {
                if expects(write.precondition, shown.as_ref().map(|entry| entry.revision)) {
                    return Err(HistoryViolation::Unjustified(operation.clone()).into());
                }
                lowest(operation, timeline.spans(&write.key, shown.as_ref()), floor)?
            }
            OperationResult::Got { key, entry } => {
                lowest(operation, timeline.spans(key, entry.as_ref()), floor)?
            }
            OperationResult::Listed { prefix, page, range } => {
                let expected = timeline.range(prefix, page, range.revision);
                if *range != expected || page.at.is_some_and(|at| at != range.revision) {
                    return Err(HistoryViolation::Torn(operation.clone(), expected).into());
                }
                if page.at.is_none() && range.revision < floor {
                    return Err(HistoryViolation::Stale(operation.clone(), floor).into());
                }
                range.revision
            }
            OperationResult::ReadRevision { revision } if *revision < floor => {
                return Err(HistoryViolation::Stale(operation.clone(), floor).into());
            }
            OperationResult::ReadRevision { revision } => *revision,
        };
        if linearization_point > ceiling {
            return Err(HistoryViolation::Premature(operation.clone()).into());
        }
        known = known.max(linearization_point);
    }
    Ok(())
}

/// The lowest linearization point for a read that was true during the spans.
fn lowest(
    operation: &Operation,
    spans: Vec<super::timeline::TimeSpan>,
    floor: Revision,
) -> CheckResult<Revision> {
    if spans.is_empty() {
        return Err(HistoryViolation::Phantom(operation.clone()).into());
    }
    spans
        .into_iter()
        .find(|span| span.until > floor)
        .map(|span| span.from.max(floor))
        .ok_or_else(|| HistoryViolation::Stale(operation.clone(), floor).into())
}

// --- Ceilings ---

impl Ceilings {
    fn new(operations: &[Operation], log: &[Event], writers: &BTreeMap<Revision, usize>) -> Self {
        let mut latest = 0;
        let requested = log
            .iter()
            .map(|event| {
                latest = latest.max(operations[writers[&event.revision]].requested);
                (latest, event.revision)
            })
            .collect();
        Self { requested }
    }

    fn at(&self, tick: u64) -> Revision {
        let first_later = self
            .requested
            .partition_point(|(requested, _)| *requested <= tick);
        self.requested
            .get(first_later)
            .map_or(NEVER, |(_, revision)| Revision::new(revision.get() - 1))
    }
}
