//! Clients and watchers at once: what they saw must be linearizable, and the watches sound.

use std::{collections::BTreeMap, sync::Arc};

use k3_storage::{CommitError, Entry, Operation, Page, Precondition, Revision, Store, Write};
use tokio::{sync::watch, task::JoinSet};

use super::{
    scenario::{KEYS, PREFIXES, Step, WatchScenario, Watcher, plans},
    seed::{TestEffort, for_all},
};
use crate::{
    backend::TestBackend,
    history::{Recorder, WatchRecording, check, check_stream},
    store_ext::{StoreExt, key, prefix, soon},
};

conformance_tests! {
    every: [concurrent_histories_are_linearizable],
    shared: [histories_of_two_handles_are_linearizable],
}

/// Failing is a matter of timing here, so a smaller input that passes proves nothing.
const EFFORT: TestEffort = TestEffort {
    cases: 20,
    shrinks: 0,
};

async fn concurrent_histories_are_linearizable(backend: &dyn TestBackend) {
    for_all(&EFFORT, &plans(), async |scenario| {
        let backend = backend.another().await;
        perform(&[backend.open().await], scenario).await
    });
}

async fn histories_of_two_handles_are_linearizable(backend: &dyn TestBackend) {
    for_all(&EFFORT, &plans(), async |scenario| {
        let backend = backend.another().await;
        perform(&[backend.open().await, backend.open().await], scenario).await
    });
}

/// Carries out a plan on the handles of a store, and checks the result.
async fn perform(handles: &[Arc<dyn Store>], scenario: WatchScenario) -> Result<(), String> {
    let handle = |number: usize| Arc::clone(&handles[number % handles.len()]);
    let start = handles[0].stands().await;
    let (finish, finished) = watch::channel(None);
    let mut watchers = JoinSet::new();
    for (number, watcher) in scenario.watchers.into_iter().enumerate() {
        watchers.spawn(follow(handle(number), watcher, start, finished.clone()));
    }
    let recorder = Arc::new(Recorder::default());
    let mut clients = JoinSet::new();
    for (number, steps) in scenario.clients.into_iter().enumerate() {
        clients.spawn(act(handle(number), Arc::clone(&recorder), number, steps));
    }
    soon("the clients", clients.join_all()).await;
    let end = handles[0].stands().await;
    finish.send_replace(Some(end));
    let recordings = soon("the watchers", watchers.join_all()).await.concat();

    let mut whole = handles[0].follow("", start).await;
    handles[0].stands().await;
    let log = whole.upto(end).await;
    check(&recorder.operations(), &log).map_err(|violation| format!("{violation}\nin {log:#?}"))?;
    for recording in recordings {
        check_stream(&recording, &log).map_err(|broken| format!("{broken}\nin {recording:#?}"))?;
    }
    for store in handles {
        store.close().await;
    }
    Ok(())
}

/// A client.
async fn act(store: Arc<dyn Store>, recorder: Arc<Recorder>, number: usize, steps: Vec<Step>) {
    // What it saw of each key last, and the revisions it saw.
    let mut seen: BTreeMap<usize, Option<Entry>> = BTreeMap::new();
    let mut revisions = Vec::new();
    for (step, what) in steps.into_iter().enumerate() {
        // A store in memory answers without a wait: others must arrive in between even so.
        tokio::task::yield_now().await;
        let value = format!("{number}.{step}");
        let expected_state = |key: usize| match seen.get(&key) {
            Some(Some(entry)) => Precondition::At(entry.revision),
            _ => Precondition::Absent,
        };
        match what {
            Step::Put { key: number } => {
                let write = Write {
                    precondition: expected_state(number),
                    ..Write::create(key(KEYS[number]), value)
                };
                let now = write_down(&*store, &recorder, write, &mut revisions).await;
                seen.insert(number, now);
            }
            Step::Create { key: number } => {
                let write = Write::create(key(KEYS[number]), value);
                let now = write_down(&*store, &recorder, write, &mut revisions).await;
                seen.insert(number, now);
            }
            Step::Delete { key: number } => {
                let write = Write {
                    key: key(KEYS[number]),
                    precondition: match expected_state(number) {
                        // Never written by anyone: a delete that must fail.
                        Precondition::Absent => Precondition::At(Revision::FIRST),
                        there @ Precondition::At(_) => there,
                    },
                    operation: Operation::Delete,
                };
                let now = write_down(&*store, &recorder, write, &mut revisions).await;
                seen.insert(number, now);
            }
            Step::Get { key: number } => {
                let entry = recorder.get(&*store, &key(KEYS[number])).await.unwrap();
                seen.insert(number, entry);
            }
            Step::List {
                prefix: number,
                limit,
            } => {
                let range = recorder
                    .range(&*store, &prefix(PREFIXES[number]), Page::first(limit))
                    .await
                    .unwrap();
                revisions.push(range.revision);
            }
            Step::ListOld { prefix: number, ago } => {
                let Some(at) = revisions.iter().rev().nth(ago).copied() else {
                    continue;
                };
                let page = Page {
                    at: Some(at),
                    ..Page::all()
                };
                recorder
                    .range(&*store, &prefix(PREFIXES[number]), page)
                    .await
                    .unwrap();
            }
            Step::Ask => revisions.push(recorder.current_revision(&*store).await.unwrap()),
        }
    }
}

/// Writes, and returns what is under the key then, as far as the writer knows.
async fn write_down(
    store: &dyn Store,
    recorder: &Recorder,
    write: Write,
    revisions: &mut Vec<Revision>,
) -> Option<Entry> {
    match recorder.commit(store, write.clone()).await {
        Ok(revision) => {
            revisions.push(revision);
            match write.operation {
                Operation::Put { value, .. } => Some(Entry {
                    key: write.key,
                    value,
                    revision,
                    expiry: None,
                }),
                Operation::Delete => None,
            }
        }
        Err(CommitError::Conflict(shown)) => shown,
        // It happened or not: the decide knows what to make of it, the client has to look.
        Err(CommitError::Uncertain(_)) => recorder.get(store, &write.key).await.unwrap(),
        Err(error) => panic!("{error:?}"),
    }
}

/// A watcher: one recording for each time it began.
async fn follow(
    store: Arc<dyn Store>,
    watcher: Watcher,
    start: Revision,
    mut finished: watch::Receiver<Option<Revision>>,
) -> Vec<WatchRecording> {
    let prefix = prefix(PREFIXES[watcher.prefix]);
    let mut recordings = Vec::new();
    let mut bookmarks = vec![start];
    let mut restarts = watcher.restarts.into_iter();
    loop {
        let restart = restarts.next();
        let after = *bookmarks.last().unwrap();
        let mut events = store.watch(&prefix, after).await.unwrap();
        let mut recording = WatchRecording {
            prefix: prefix.clone(),
            after,
            batches: Vec::new(),
        };
        let enough = restart.map_or(usize::MAX, |(batches, _)| batches);
        let mut received = after;
        let mut requested = false;
        let complete = loop {
            if recording.batches.len() >= enough {
                break false;
            }
            let end = *finished.borrow();
            if end.is_some_and(|end| received >= end) {
                break true;
            }
            // A quiet prefix reaches the end only when another process asks.
            if end.is_some() && !requested {
                store.stands().await;
                requested = true;
            }
            tokio::select! {
                batch = events.next() => {
                    let batch = batch.unwrap();
                    received = batch.revision;
                    bookmarks.push(received);
                    recording.batches.push(batch);
                }
                changed = finished.changed(), if end.is_none() => changed.unwrap(),
            }
        };
        recordings.push(recording);
        if complete {
            return recordings;
        }
        let back = restart.map_or(0, |(_, back)| back);
        bookmarks.truncate(bookmarks.len().saturating_sub(back).max(1));
    }
}
