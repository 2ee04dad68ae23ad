//! A process that watches is stopped while others write and compact, and continues later.

use std::{sync::Arc, time::Duration};

use k3_storage::{Change, Event, EventBatch, Revision, Store};

use super::{
    address::Address,
    process::{ChildJob, ChildProcess},
    protocol::{ChildSignal, Message, value},
};
use crate::{
    backend::{etcd, mysql, run_within},
    history::{WatchRecording, check_stream},
    store_ext::{StoreExt, key, prefix},
};

const LIMIT: Duration = Duration::from_mins(3);

/// Commits that a paused watcher misses at first: few, and more than any queue on the way holds. In the
/// second half they are compacted.
const COMMITS: [usize; 4] = [5, 600, 5, 600];
/// Longer than requests of the child may take: to it, time has jumped.
const PAUSE: Duration = Duration::from_secs(4);

#[test]
fn paused_etcd_client_sees_every_event_or_compacted() {
    run_within(LIMIT, async {
        // Of its own: it is compacted.
        let etcd = tokio::task::spawn_blocking(etcd::start).await.unwrap().unwrap();
        let address = Address::Etcd {
            endpoint: etcd.endpoint(),
            prefix: "/pause/".to_owned(),
        };
        pause_a_watcher(&address).await;
    });
}

#[test]
fn paused_mysql_client_sees_every_event_or_compacted() {
    run_within(LIMIT, async {
        let database = mysql::fresh_database().await;
        let address = Address::Mysql {
            server: database.server.url(),
            database: database.name.clone(),
        };
        pause_a_watcher(&address).await;
    });
}

/// What the watcher has said so far.
struct PauseObservation {
    /// One for each time it began.
    recordings: Vec<WatchRecording>,
    /// Events since the last bookmark.
    events: Vec<Event>,
    /// How far it has arrived.
    reached: Revision,
}

async fn pause_a_watcher(address: &Address) {
    let store = address.open().await.unwrap();
    let start = store.stands().await;
    let mut watcher = ChildProcess::start(address, &ChildJob::Watch { after: start });
    assert_eq!(watcher.message().await, Message::Ready(start));
    let mut heard = PauseObservation::new(start);
    let mut log = Vec::new();
    for (round, commits) in COMMITS.into_iter().enumerate() {
        // It is at work, and then it is not.
        let last = write(&store, &mut log, 1).await;
        heard.hear_until(&mut watcher, last).await;
        watcher.pause().await;
        let overtaken = heard.recordings.len();
        let last = write(&store, &mut log, commits).await;
        let compacting = round >= COMMITS.len() / 2;
        if compacting {
            store.compact(last).await.unwrap();
        }
        if commits < 10 {
            // Nothing reports that time has passed but time.
            tokio::time::sleep(PAUSE).await;
        }
        watcher.resume();
        let last = write(&store, &mut log, 1).await;
        heard.hear_until(&mut watcher, last).await;
        let restarts = heard.recordings.len() - overtaken;
        assert!(
            restarts == 0 || compacting,
            "it was cut off, but nothing was compacted"
        );
    }
    for recording in &heard.recordings {
        check_stream(recording, &log).unwrap_or_else(|broken| panic!("{broken}"));
    }
    watcher.kill().await;
    store.close().await;
}

/// Puts values under few keys, deletes some, and returns the last revision.
async fn write(store: &Arc<dyn Store>, log: &mut Vec<Event>, count: usize) -> Revision {
    let mut last = Revision::ZERO;
    for _ in 0..count {
        let number = log.len() as u64;
        let name = format!("/k/{}", number % 7);
        let known = log.iter().rev().find(|event| *event.key == *name);
        let there = known.filter(|event| event.change != Change::Deleted);
        let (revision, change) = match there {
            Some(event) if number % 5 == 4 => (store.delete(&name, event.revision).await, Change::Deleted),
            Some(event) => {
                let value = value(number);
                let revision = store.update(&name, event.revision, value.clone()).await;
                (revision, Change::Updated(value))
            }
            None => {
                let value = value(number);
                (store.create(&name, value.clone()).await, Change::Created(value))
            }
        };
        last = revision;
        log.push(Event {
            revision,
            key: key(&name),
            change,
        });
    }
    last
}

// --- Heard ---

impl PauseObservation {
    fn new(start: Revision) -> Self {
        Self {
            recordings: vec![Self::recording(start)],
            events: Vec::new(),
            reached: start,
        }
    }

    fn recording(after: Revision) -> WatchRecording {
        WatchRecording {
            prefix: prefix("/k/"),
            after,
            batches: Vec::new(),
        }
    }

    async fn hear_until(&mut self, watcher: &mut ChildProcess, revision: Revision) {
        while self.reached < revision {
            match watcher.message().await {
                Message::Event {
                    revision,
                    key: name,
                    put,
                } => self.events.push(Event {
                    revision,
                    key: key(&name),
                    change: match put {
                        Some((ChildSignal::Created, number)) => Change::Created(value(number)),
                        Some((ChildSignal::Updated, number)) => Change::Updated(value(number)),
                        None => Change::Deleted,
                    },
                }),
                Message::Bookmark(revision) => {
                    self.reached = revision;
                    let events = std::mem::take(&mut self.events).into();
                    let recording = self.recordings.last_mut().expect("it begins with one");
                    recording.batches.push(EventBatch { events, revision });
                }
                Message::Relisted(revision) => {
                    self.reached = revision;
                    self.recordings.push(Self::recording(revision));
                }
                other => panic!("not a word of a watcher: {other:?}"),
            }
        }
    }
}
