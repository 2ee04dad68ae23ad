//! One client, step by step, on a store and on the model: both must give the same answers.
//!
//! Revisions are compared by their order: a backend may share its numbers with others.

use std::sync::Arc;

use bytes::Bytes;
use k3_storage::{
    Change, CommitError, Entry, Event, EventBatch, Operation, Page, Precondition, Range, ReadError, Revision,
    Store, WatchError, WatchStream, Write, memory::MemoryStore,
};
use proptest::{collection::vec, prelude::*};

use super::{
    scenario::{KEYS, PREFIXES},
    seed::{TestEffort, for_all},
};
use crate::{
    backend::TestBackend,
    history::{WatchRecording, check_stream},
    store_ext::{StoreExt, key, prefix, soon},
};

conformance_tests! {
    durable: [random_history_matches_the_memory_model],
}

const EFFORT: TestEffort = TestEffort {
    cases: 16,
    shrinks: 100,
};

/// A step of the history. A `moment` is a number into the commits so far, counted modulo.
#[derive(Clone, Debug)]
enum Step {
    Put {
        key: usize,
        expected_state: ExpectedState,
        value: Vec<u8>,
    },
    Delete {
        key: usize,
        expected_state: ExpectedState,
    },
    Get {
        key: usize,
    },
    Range {
        prefix: usize,
        at: Option<usize>,
        after: Option<usize>,
        limit: usize,
    },
    Compact {
        moment: usize,
    },
    Watch {
        prefix: usize,
        moment: usize,
    },
    Drain,
    Reopen,
}

/// What the writer expects.
#[derive(Clone, Debug)]
enum ExpectedState {
    Right,
    Absent,
    At { moment: usize },
}

/// The store under test beside the model.
struct Pair<'a> {
    backend: &'a dyn TestBackend,
    real: Arc<dyn Store>,
    model: Arc<MemoryStore>,
    /// Revisions of the model and of the store that mean the same, in their order.
    moments: Vec<(Revision, Revision)>,
    /// What the store's watches must report.
    log: Vec<Event>,
    /// Up to where the store was compacted, by its own numbers.
    compacted: Revision,
    watches: Vec<(WatchStream, WatchRecording)>,
    ended: Vec<WatchRecording>,
}

async fn random_history_matches_the_memory_model(backend: &dyn TestBackend) {
    for_all(&EFFORT, &vec(step(), 1..80), async |steps| {
        let backend = backend.another().await;
        let mut pair = Pair::open(&*backend).await;
        for step in steps {
            pair.take(step).await?;
        }
        pair.finish().await
    });
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS.len();
    let prefix = 0..PREFIXES.len();
    let moment = 0..1000_usize;
    let expected_state = prop_oneof![
        6 => Just(ExpectedState::Right),
        1 => Just(ExpectedState::Absent),
        1 => moment.clone().prop_map(|moment| ExpectedState::At { moment }),
    ];
    let page = (
        proptest::option::of(moment.clone()),
        proptest::option::of(key.clone()),
        0..4_usize,
    );
    prop_oneof![
        10 => (key.clone(), expected_state.clone(), vec(any::<u8>(), 0..40))
            .prop_map(|(key, expected_state, value)| Step::Put { key, expected_state, value }),
        4 => (key.clone(), expected_state).prop_map(|(key, expected_state)| Step::Delete { key, expected_state }),
        3 => key.prop_map(|key| Step::Get { key }),
        6 => (prefix.clone(), page)
            .prop_map(|(prefix, (at, after, limit))| Step::Range { prefix, at, after, limit }),
        1 => moment.clone().prop_map(|moment| Step::Compact { moment }),
        2 => (prefix, moment).prop_map(|(prefix, moment)| Step::Watch { prefix, moment }),
        1 => Just(Step::Drain),
        1 => Just(Step::Reopen),
    ]
}

// --- Pair ---

impl<'a> Pair<'a> {
    async fn open(backend: &'a dyn TestBackend) -> Self {
        let real = backend.open().await;
        let start = real.stands().await;
        Self {
            backend,
            real,
            model: MemoryStore::new(),
            moments: vec![(Revision::FIRST, start)],
            log: Vec::new(),
            compacted: Revision::ZERO,
            watches: Vec::new(),
            ended: Vec::new(),
        }
    }

    async fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Put {
                key: number,
                expected_state,
                value,
            } => {
                let operation = Operation::Put {
                    value: value.into(),
                    ttl: None,
                };
                self.commit(number, &expected_state, operation).await
            }
            Step::Delete {
                key: number,
                expected_state,
            } => self.commit(number, &expected_state, Operation::Delete).await,
            Step::Get { key: number } => {
                let name = key(KEYS[number]);
                let modelled = self.model.get(&name).await.unwrap();
                let real = self.real.get(&name).await.unwrap();
                same("get", &real, &self.translated(modelled))
            }
            Step::Range {
                prefix,
                at,
                after,
                limit,
            } => self.range(prefix, at, after, limit).await,
            Step::Compact { moment } => {
                let (modelled, real) = self.moment(moment);
                self.model.compact(modelled).await.unwrap();
                self.real.compact(real).await.unwrap();
                self.compacted = self.compacted.max(real);
                Ok(())
            }
            Step::Watch { prefix, moment } => self.watch(prefix, moment).await,
            Step::Drain => self.drain().await,
            Step::Reopen => {
                self.drain().await?;
                self.ended
                    .extend(self.watches.drain(..).map(|(_, recording)| recording));
                self.real.close().await;
                self.real = self.backend.open().await;
                let stands = self.real.stands().await;
                let last = self.last();
                (stands >= last)
                    .then_some(())
                    .ok_or_else(|| format!("stands at {stands} after {last} was committed"))
            }
        }
    }

    async fn commit(
        &mut self,
        number: usize,
        expected_state: &ExpectedState,
        operation: Operation,
    ) -> Result<(), String> {
        let name = key(KEYS[number]);
        let held = self.model.get(&name).await.unwrap();
        let (modelled, real) = match expected_state {
            ExpectedState::Absent => (Precondition::Absent, Precondition::Absent),
            ExpectedState::Right => match &held {
                None => (Precondition::Absent, Precondition::Absent),
                Some(entry) => (
                    Precondition::At(entry.revision),
                    Precondition::At(self.translate(entry.revision)),
                ),
            },
            ExpectedState::At { moment } => {
                let (modelled, real) = self.moment(*moment);
                (Precondition::At(modelled), Precondition::At(real))
            }
        };
        let write = |precondition| Write {
            key: name.clone(),
            precondition,
            operation: operation.clone(),
        };
        let modelled = self.model.commit(write(modelled)).await;
        let answer = self.real.commit(write(real)).await;
        match (modelled, answer) {
            (Ok(modelled), Ok(real)) => {
                let last = self.last();
                if real <= last {
                    return Err(format!("revision {real} follows {last}"));
                }
                self.moments.push((modelled, real));
                self.log.push(Event {
                    revision: real,
                    key: name,
                    change: match (operation, held) {
                        (Operation::Delete, _) => Change::Deleted,
                        (Operation::Put { value, .. }, None) => Change::Created(value),
                        (Operation::Put { value, .. }, Some(_)) => Change::Updated(value),
                    },
                });
                Ok(())
            }
            (Err(CommitError::Conflict(modelled)), Err(CommitError::Conflict(real))) => {
                same("conflict", &real, &self.translated(modelled))
            }
            (modelled, real) => Err(format!("commit: {real:?}, but the model: {modelled:?}")),
        }
    }

    async fn range(
        &mut self,
        number: usize,
        at: Option<usize>,
        after: Option<usize>,
        limit: usize,
    ) -> Result<(), String> {
        let prefix = prefix(PREFIXES[number]);
        let at = at.map(|moment| self.moment(moment));
        let page = |at| Page {
            at,
            after: after.map(|number| key(KEYS[number])),
            limit,
        };
        let modelled = self
            .model
            .range(&prefix, page(at.map(|(modelled, _)| modelled)))
            .await;
        let real = self.real.range(&prefix, page(at.map(|(_, real)| real))).await;
        match (modelled, real) {
            (Ok(modelled), Ok(real)) => {
                let expected = Range {
                    entries: modelled
                        .entries
                        .into_iter()
                        .map(|entry| self.translated_entry(entry))
                        .collect(),
                    // The newest may be newer than the newest commit, by the writes of others.
                    revision: if at.is_none() {
                        real.revision.max(self.last())
                    } else {
                        self.translate(modelled.revision)
                    },
                    more: modelled.more,
                };
                same("range", &real, &expected)
            }
            (
                Err(ReadError::Compacted { oldest: modelled, .. }),
                Err(ReadError::Compacted { oldest: real, .. }),
            ) => same("compacted", &real, &self.translate(modelled)),
            (modelled, real) => Err(format!("range: {real:?}, but the model: {modelled:?}")),
        }
    }

    async fn watch(&mut self, number: usize, moment: usize) -> Result<(), String> {
        let prefix = prefix(PREFIXES[number]);
        let (modelled, after) = self.moment(moment);
        match self.model.watch(&prefix, modelled).await {
            Ok(_) => {
                let events = self
                    .real
                    .watch(&prefix, after)
                    .await
                    .map_err(|error| error.to_string())?;
                let recording = WatchRecording {
                    prefix,
                    after,
                    batches: Vec::new(),
                };
                self.watches.push((events, recording));
                Ok(())
            }
            Err(WatchError::Compacted { oldest: modelled, .. }) => {
                match self.real.watch_error(PREFIXES[number], after).await {
                    WatchError::Compacted { oldest, .. } => {
                        same("compacted", &oldest, &self.translate(modelled))
                    }
                    other => Err(format!("watch: {other:?}, but the model: compacted")),
                }
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    /// Reads every watch up to now.
    async fn drain(&mut self) -> Result<(), String> {
        let now = self.real.stands().await;
        for (mut events, mut recording) in std::mem::take(&mut self.watches) {
            let mut reached = recording
                .batches
                .last()
                .map_or(recording.after, |batch| batch.revision);
            let ended = loop {
                if reached >= now {
                    break false;
                }
                match soon("a batch", events.next()).await {
                    Ok(batch) => {
                        reached = batch.revision;
                        recording.batches.push(batch);
                    }
                    // It was overtaken; what it reported until then still counts.
                    Err(WatchError::Compacted { .. }) if reached < self.compacted => break true,
                    Err(error) => return Err(format!("a watch that had reached {reached}: {error:?}")),
                }
            };
            if ended {
                self.ended.push(recording);
            } else {
                self.watches.push((events, recording));
            }
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<(), String> {
        self.drain().await?;
        self.ended
            .extend(self.watches.drain(..).map(|(_, recording)| recording));
        for recording in &self.ended {
            check_stream(recording, &self.log)
                .map_err(|broken| format!("{broken}\nin {:#?}", flat(&recording.batches)))?;
        }
        self.real.close().await;
        Ok(())
    }

    fn last(&self) -> Revision {
        self.moments[self.moments.len() - 1].1
    }

    fn moment(&self, number: usize) -> (Revision, Revision) {
        self.moments[number % self.moments.len()]
    }

    /// The store's number for a revision of the model.
    fn translate(&self, modelled: Revision) -> Revision {
        let index = self
            .moments
            .binary_search_by_key(&modelled, |(modelled, _)| *modelled)
            .expect("every revision of the model is a moment");
        self.moments[index].1
    }

    fn translated(&self, entry: Option<Entry>) -> Option<Entry> {
        entry.map(|entry| self.translated_entry(entry))
    }

    fn translated_entry(&self, entry: Entry) -> Entry {
        Entry {
            revision: self.translate(entry.revision),
            value: Bytes::clone(&entry.value),
            ..entry
        }
    }
}

fn flat(batches: &[EventBatch]) -> Vec<(Vec<Event>, Revision)> {
    batches
        .iter()
        .map(|batch| (batch.events.to_vec(), batch.revision))
        .collect()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, real: &T, expected: &T) -> Result<(), String> {
    if real == expected {
        return Ok(());
    }
    Err(format!("{what}: {real:#?}, but the model: {expected:#?}"))
}
