//! Two processes on one etcd or MariaDB: they are killed, and so is the server under them.

use std::{sync::Arc, time::Duration};

use k3_storage::{EventBatch, Revision, WatchStream};
use k3_test_services::MariaDb;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::{sync::watch, task::JoinSet};

use super::{
    CYCLES_VARIABLE,
    address::Address,
    ledger::WriteLedger,
    process::{ChildJob, ChildProcess},
    protocol::REQUESTS,
};
use crate::{
    backend::{etcd, run_within},
    history::{WatchRecording, check, check_stream},
    properties::seed,
    store_ext::{StoreExt, prefix, soon},
};

/// How often something is killed, unless the environment names another number.
const CYCLES: u64 = 8;
/// More than a cycle takes on a busy machine.
const LIMIT_PER_CYCLE: Duration = Duration::from_secs(30);

fn cycles() -> u64 {
    seed::number(CYCLES_VARIABLE).unwrap_or(CYCLES)
}

fn limit() -> Duration {
    let cycles = u32::try_from(cycles()).unwrap_or(u32::MAX);
    LIMIT_PER_CYCLE.saturating_mul(cycles)
}

/// A server that can be killed.
trait Server: Send + Sync + 'static {
    /// Kills it with all it had not written down, and starts it again on what it had.
    fn crash(&self);
}

impl Server for k3_test_services::Etcd {
    fn crash(&self) {
        self.kill().unwrap();
        self.restart().unwrap();
    }
}

impl Server for MariaDb {
    fn crash(&self) {
        self.kill().unwrap();
        self.restart().unwrap();
    }
}

#[test]
fn no_acknowledged_write_is_lost_when_etcd_or_its_clients_are_killed() {
    seed::with_seed(|seed| {
        let etcd = etcd::start().unwrap();
        let address = Address::Etcd {
            endpoint: etcd.endpoint(),
            prefix: "/crash/".to_owned(),
        };
        run_within(limit(), kill_this_and_that(Arc::new(etcd), address, seed));
    });
}

#[test]
fn no_acknowledged_write_is_lost_when_mariadb_or_its_clients_are_killed() {
    seed::with_seed(|seed| {
        let mariadb = MariaDb::start().unwrap();
        let address = Address::Mysql {
            server: mariadb.url(),
            database: "crash".to_owned(),
        };
        run_within(limit(), kill_this_and_that(Arc::new(mariadb), address, seed));
    });
}

/// The children, and what they said.
struct ClientProcesses {
    address: Address,
    ledger: WriteLedger,
    /// `None` where one was killed.
    processes: [Option<ChildProcess>; 2],
    /// How many children there have been.
    lives: u64,
}

async fn kill_this_and_that(server: Arc<dyn Server>, address: Address, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let store = address.open().await.unwrap();
    let start = store.stands().await;
    // A watch of this process lives through it all.
    let events = store.watch(&prefix(""), start).await.unwrap();
    let (finish, finished) = watch::channel(None);
    let mut watcher = JoinSet::new();
    watcher.spawn(record(events, finished));

    let mut clients = ClientProcesses {
        address,
        ledger: WriteLedger::default(),
        processes: [None, None],
        lives: 0,
    };
    for cycle in 0..cycles() {
        clients.revive().await;
        clients
            .hear(Duration::from_millis(random.random_range(100..300)))
            .await;
        match cycle % 4 {
            0 | 2 => {
                let server = Arc::clone(&server);
                let mut crash = JoinSet::new();
                crash.spawn_blocking(move || server.crash());
                while crash.try_join_next().map(Result::unwrap).is_none() {
                    clients.hear(Duration::from_millis(20)).await;
                }
            }
            1 => clients.kill(random.random_range(0..2)).await,
            _ => {
                clients.kill(0).await;
                clients.kill(1).await;
            }
        }
        let before = clients.ledger.acknowledged();
        clients.revive().await;
        soon("writes that go on", async {
            while clients.ledger.acknowledged() < before + 20 {
                clients.hear(Duration::from_millis(20)).await;
            }
        })
        .await;
    }
    clients.kill(0).await;
    clients.kill(1).await;

    let end = store.stands().await;
    let received = clients.ledger.known();
    assert!(
        end >= received,
        "it stands at {end}, but {received} was acknowledged"
    );
    finish.send_replace(Some(end));
    store.stands().await;
    let batches = soon("the watcher", watcher.join_next()).await.unwrap().unwrap();
    let log = {
        let mut whole = store.follow("", start).await;
        store.stands().await;
        whole.upto(end).await
    };
    check(clients.ledger.operations(), &log).unwrap_or_else(|violation| panic!("{violation}"));
    let recording = WatchRecording {
        prefix: prefix(""),
        after: start,
        batches,
    };
    check_stream(&recording, &log).unwrap_or_else(|broken| panic!("{broken}"));
    store.close().await;
}

/// Writes down what a watch reports, until it has reported all up to the end.
async fn record(mut events: WatchStream, mut finished: watch::Receiver<Option<Revision>>) -> Vec<EventBatch> {
    let mut batches: Vec<EventBatch> = Vec::new();
    loop {
        let end = *finished.borrow();
        let reached = batches.last().map_or(Revision::ZERO, |batch| batch.revision);
        if end.is_some_and(|end| reached >= end) {
            return batches;
        }
        tokio::select! {
            batch = events.next() => batches.push(batch.unwrap()),
            changed = finished.changed(), if end.is_none() => changed.unwrap(),
        }
    }
}

// --- ClientProcesses ---

impl ClientProcesses {
    /// Starts the children that are missing, and waits until they are at work.
    async fn revive(&mut self) {
        for (child, slot) in self.processes.iter_mut().enumerate() {
            if slot.is_some() {
                continue;
            }
            self.lives += 1;
            let job = ChildJob::Write {
                first: self.lives * REQUESTS,
                compact: None,
            };
            let mut process = ChildProcess::start(&self.address, &job);
            self.ledger.note(child, process.message().await);
            *slot = Some(process);
        }
    }

    /// Hears them for a while.
    async fn hear(&mut self, time: Duration) {
        let end = tokio::time::Instant::now() + time;
        for (child, slot) in self.processes.iter_mut().enumerate() {
            let Some(process) = slot else { continue };
            let left = end.saturating_duration_since(tokio::time::Instant::now());
            let ledger = &mut self.ledger;
            process.hear(left, |message| ledger.note(child, message)).await;
        }
    }

    async fn kill(&mut self, child: usize) {
        let Some(process) = self.processes[child].take() else {
            return;
        };
        for message in process.kill().await {
            self.ledger.note(child, message);
        }
        self.ledger.end(child);
    }
}
