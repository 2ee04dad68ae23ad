//! The side of the child.

use std::{
    collections::HashMap,
    io::{Read, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k3_storage::{
    Change, CommitError, Entry, Event, Key, Operation, Page, Precondition, Revision, Store, WatchError, Write,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;

use super::{
    address::Address,
    protocol::{ChildSignal, Message, RequestedOperation, Response, now, number_of, value},
};
use crate::{
    backend::run_within,
    store_ext::{key, prefix},
};

/// Environment variables of a child.
pub(crate) const JOB: &str = "K3_CHILD_JOB";
pub(crate) const STORE: &str = "K3_CHILD_STORE";
/// The number of the child's first request. Also the seed of its choices.
pub(crate) const FIRST: &str = "K3_CHILD_FIRST";
/// For writers: the revisions to compact up to while they write, from one to another. For watchers: where
/// to begin.
pub(crate) const SPAN: &str = "K3_CHILD_SPAN";

/// The name of the test that a child is.
pub(crate) const NAME: &str = "crash::child::act_as_a_child";

/// Clients of one child that write at the same time.
const WRITERS: u64 = 6;
/// Keys that all children meet at.
const KEYS: u64 = 20;
/// As long as no test takes.
const LIFETIME: Duration = Duration::from_hours(1);

#[test]
#[ignore = "what the crash tests start as their child; it does nothing by itself"]
fn act_as_a_child() {
    let Ok(job) = std::env::var(JOB) else { return };
    // A parent that ended for any reason, leaves no child behind.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    run_within(LIFETIME, async {
        let store: Address = variable(STORE).parse().unwrap();
        let store = store.open().await.unwrap();
        // The harness has begun a line of its own.
        println!();
        match &*job {
            "write" => write(store).await,
            "watch" => watch(store).await,
            other => panic!("no such job: {other}"),
        }
    });
}

/// Writes and reads until the end arrives.
async fn write(store: Arc<dyn Store>) {
    let first: u64 = variable(FIRST).parse().unwrap();
    let numbers = Arc::new(AtomicU64::new(first));
    let mut tasks = JoinSet::new();
    say(&Message::Ready(store.current_revision().await.unwrap()));
    for writer in 0..WRITERS {
        let client = Client {
            store: Arc::clone(&store),
            numbers: Arc::clone(&numbers),
            random: StdRng::seed_from_u64(first * WRITERS + writer),
            seen: HashMap::new(),
        };
        tasks.spawn(client.run());
    }
    if let Ok(span) = std::env::var(SPAN) {
        let (from, upto) = span.split_once(' ').unwrap();
        tasks.spawn(compact(store, from.parse().unwrap(), upto.parse().unwrap()));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

/// Compacts in steps, so that it meets the writers often.
async fn compact(store: Arc<dyn Store>, from: u64, upto: u64) {
    for step in 1..=4 {
        let revision = from + (upto - from) * step / 4;
        store.compact(Revision::new(revision)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// One of the clients of a child that writes.
struct Client {
    store: Arc<dyn Store>,
    /// Where the numbers of requests are from.
    numbers: Arc<AtomicU64>,
    random: StdRng,
    /// What was seen of each key last.
    seen: HashMap<Key, Option<Revision>>,
}

impl Client {
    async fn run(mut self) {
        loop {
            let key = key(&format!("/k/{}", self.random.random_range(0..KEYS)));
            let choice = self.random.random_range(0..10);
            match self.seen.get(&key).copied() {
                None => self.get(key).await,
                Some(_) if choice < 2 => self.get(key).await,
                Some(Some(revision)) if choice < 4 => {
                    self.change(key, RequestedOperation::Delete(Precondition::At(revision)))
                        .await;
                }
                Some(Some(revision)) => {
                    self.change(key, RequestedOperation::Put(Precondition::At(revision)))
                        .await;
                }
                Some(None) => {
                    self.change(key, RequestedOperation::Put(Precondition::Absent))
                        .await;
                }
            }
        }
    }

    async fn get(&mut self, key: Key) {
        let number = self.ask(&key, RequestedOperation::Get);
        match self.store.get(&key).await {
            Ok(entry) => {
                send(number, Response::Shown(shown(entry.as_ref())));
                self.seen.insert(key, entry.map(|entry| entry.revision));
            }
            Err(_) => self.fail(number, Response::Failed).await,
        }
    }

    async fn change(&mut self, key: Key, what: RequestedOperation) {
        let number = self.ask(&key, what);
        let (precondition, operation) = match what {
            RequestedOperation::Put(precondition) => {
                let value = value(number);
                (precondition, Operation::Put { value, ttl: None })
            }
            RequestedOperation::Delete(precondition) => (precondition, Operation::Delete),
            RequestedOperation::Get => unreachable!("a get changes nothing"),
        };
        let put = matches!(operation, Operation::Put { .. });
        let write = Write {
            key: key.clone(),
            precondition,
            operation,
        };
        match self.store.commit(write).await {
            Ok(revision) => {
                send(number, Response::Committed(revision));
                self.seen.insert(key, put.then_some(revision));
            }
            Err(CommitError::Conflict(entry)) => {
                send(number, Response::Shown(shown(entry.as_ref())));
                self.seen.insert(key, entry.map(|entry| entry.revision));
            }
            Err(CommitError::Uncertain(_)) => {
                self.seen.remove(&key);
                self.fail(number, Response::Uncertain).await;
            }
            Err(CommitError::Store(_)) => self.fail(number, Response::Failed).await,
            Err(error) => panic!("{error:?}"),
        }
    }

    fn ask(&self, key: &Key, what: RequestedOperation) -> u64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        say(&Message::Ask {
            at: now(),
            number,
            key: key.to_string(),
            what,
        });
        number
    }

    async fn fail(&self, number: u64, answer: Response) {
        send(number, answer);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Watches until the end arrives; reads the store again whenever its events were compacted.
async fn watch(store: Arc<dyn Store>) {
    let prefix = prefix("/k/");
    let mut after = Revision::new(variable(SPAN).parse().unwrap());
    say(&Message::Ready(after));
    loop {
        let mut events = match store.watch(&prefix, after).await {
            Ok(events) => events,
            Err(WatchError::Compacted { .. }) => {
                after = store.range(&prefix, Page::all()).await.unwrap().revision;
                say(&Message::Relisted(after));
                continue;
            }
            Err(error) => panic!("{error:?}"),
        };
        loop {
            match events.next().await {
                Ok(batch) => {
                    batch.events.iter().for_each(|event| say(&message(event)));
                    after = batch.revision;
                    say(&Message::Bookmark(after));
                }
                Err(WatchError::Compacted { .. }) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
        // Where it stood cannot be watched from any more: the next turn finds that out.
    }
}

fn message(event: &Event) -> Message {
    let numbered = |sign, value: &[u8]| Some((sign, number_of(value).expect("a value is as it was written")));
    Message::Event {
        revision: event.revision,
        key: event.key.to_string(),
        put: match &event.change {
            Change::Created(value) => numbered(ChildSignal::Created, value),
            Change::Updated(value) => numbered(ChildSignal::Updated, value),
            Change::Deleted => None,
        },
    }
}

fn shown(entry: Option<&Entry>) -> Option<(Revision, u64)> {
    let entry = entry?;
    Some((
        entry.revision,
        number_of(&entry.value).expect("a value is as it was written"),
    ))
}

fn send(number: u64, answer: Response) {
    say(&Message::Response {
        at: now(),
        number,
        answer,
    });
}

/// Reports a word at once: what is still in a buffer when the process is killed was not said.
fn say(message: &Message) {
    let mut out = std::io::stdout().lock();
    let said = out
        .write_all(format!("{message}\n").as_bytes())
        .and_then(|()| out.flush());
    if said.is_err() {
        std::process::exit(0);
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}
