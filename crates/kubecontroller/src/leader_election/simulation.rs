//! A server of one lease, links to it that fail, processes that stand still; and what must hold whatever happens.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::{LeaderElectionConfig, LeaderElector};
use crate::{Clock, manager::Stop};

/// The lease, as the API keeps it.
#[derive(Clone, Default)]
pub(super) struct Server {
    state: Arc<Mutex<Stored>>,
}

#[derive(Default)]
struct Stored {
    lease: Option<Value>,
    version: u64,
    requests: u64,
}

/// The way of one candidate to the server.
#[derive(Clone, Default)]
pub(super) struct Link {
    fault: Arc<Mutex<Fault>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Fault {
    /// Requests take so long to arrive.
    there: Duration,
    /// Answers take so long to arrive.
    back: Duration,
    /// Nothing gets through at all.
    is_cut: bool,
}

// --- Server ---

impl Server {
    pub(super) fn client(&self, link: &Link) -> kube::Client {
        let (server, link) = (self.clone(), link.clone());
        let service = tower::service_fn(move |request: Request<Body>| -> BoxFuture<'static, _> {
            let (server, link) = (server.clone(), link.clone());
            Box::pin(async move {
                let fault = link.get();
                sleep(fault.there).await;
                if fault.is_cut {
                    sleep(Duration::from_secs(1)).await;
                    return Err("connection refused");
                }
                let answer = server.answer(request).await;
                sleep(fault.back).await;
                Ok(answer)
            })
        });
        kube::Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Full<bytes::Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body
            .collect()
            .await
            .expect("bodies of requests are whole")
            .to_bytes();
        let mut stored = self.state();
        stored.requests += 1;
        let (code, answer) = match (parts.method, stored.lease.clone()) {
            (Method::GET, Some(lease)) => (200, lease),
            (Method::GET | Method::PUT, None) => (404, status(404, "NotFound")),
            (Method::POST, Some(_)) => (409, status(409, "AlreadyExists")),
            (Method::POST, None) => (201, stored.write(&body)),
            (Method::PUT, Some(lease)) => {
                let new: Value = serde_json::from_slice(&body).expect("a lease");
                let version = "/metadata/resourceVersion";
                if new.pointer(version) == lease.pointer(version) {
                    (200, stored.write(&body))
                } else {
                    (409, status(409, "Conflict"))
                }
            }
            (method, _) => panic!("{method} is not for leases"),
        };
        let body = Full::new(answer.to_string().into());
        Response::builder().status(code).body(body).expect("a response")
    }

    /// The lease as it is.
    pub(super) fn lease(&self) -> Value {
        self.state().lease.clone().unwrap_or_default()
    }

    /// Changes the lease, as somebody with kubectl would.
    pub(super) fn edit(&self, edit: impl FnOnce(&mut Option<Value>)) {
        let mut stored = self.state();
        edit(&mut stored.lease);
        if let Some(lease) = stored.lease.clone() {
            stored.write(lease.to_string().as_bytes());
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.state().requests
    }

    fn state(&self) -> MutexGuard<'_, Stored> {
        self.state.lock().unwrap()
    }
}

impl Stored {
    fn write(&mut self, body: &[u8]) -> Value {
        let mut lease: Value = serde_json::from_slice(body).expect("a lease");
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        lease["metadata"]["uid"] = json!("lease-1");
        self.lease = Some(lease.clone());
        lease
    }
}

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code})
}

// --- Link ---

impl Link {
    fn get(&self) -> Fault {
        *self.fault.lock().unwrap()
    }

    fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    /// From now on nothing gets through.
    pub(super) fn cut(&self) {
        self.set(Fault {
            is_cut: true,
            ..Fault::default()
        });
    }

    /// All is well again.
    pub(super) fn mend(&self) {
        self.set(Fault::default());
    }
}

// --- processes that stand still ---

/// A future that is not polled until a given time comes: a process that was suspended.
struct Process<F> {
    resumes: Arc<Mutex<Instant>>,
    future: Pin<Box<F>>,
    alarm: Pin<Box<tokio::time::Sleep>>,
}

impl<F: Future> Future for Process<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let resumes = *self.resumes.lock().unwrap();
        if resumes > Instant::now() {
            self.alarm.as_mut().reset(resumes);
            if self.alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        self.future.as_mut().poll(context)
    }
}

// --- what must hold ---

/// Something that happens to one of the candidates.
#[derive(Clone, Debug)]
enum InjectedFault {
    Cut(usize),
    Mend(usize),
    Slow(usize, u64, u64),
    Suspend(usize, u64),
    Crash(usize),
    Jump(usize, i64),
}

fn troubles() -> impl Strategy<Value = Vec<(u64, InjectedFault)>> {
    let who = 0..3_usize;
    let trouble = prop_oneof![
        who.clone().prop_map(InjectedFault::Cut),
        who.clone().prop_map(InjectedFault::Mend),
        (who.clone(), 0..9_000_u64, 0..9_000_u64)
            .prop_map(|(who, there, back)| InjectedFault::Slow(who, there, back)),
        (who.clone(), 0..40_000_u64).prop_map(|(who, pause)| InjectedFault::Suspend(who, pause)),
        who.clone().prop_map(InjectedFault::Crash),
        (who, -100_000..100_000_i64).prop_map(|(who, by)| InjectedFault::Jump(who, by)),
    ];
    prop::collection::vec((0..20_000_u64, trouble), 1..25)
}

/// Runs three candidates through it. Whoever acts must be the one whose turn began last; returns how many turns there were.
async fn play(troubles: Vec<(u64, InjectedFault)>) -> u64 {
    let server = Server::default();
    let turns = Arc::new(AtomicU64::new(0));
    let links: Vec<Link> = (0..3).map(|_| Link::default()).collect();
    let resumes: Vec<_> = (0..3).map(|_| Arc::new(Mutex::new(Instant::now()))).collect();
    let skews: Vec<_> = (0..3).map(|_| Arc::new(Mutex::new(0_i64))).collect();
    let mut processes = JoinSet::new();
    let mut start = |who: usize, life: usize| {
        let mut options = LeaderElectionConfig::new("default", "test");
        options.identity = format!("candidate-{who}-{life}");
        let skew = Arc::clone(&skews[who]);
        let clock = Clock::new(move || {
            let skew = *skew.lock().unwrap();
            k8s_openapi::jiff::Timestamp::from_millisecond(1_700_000_000_000 + skew).unwrap()
        });
        let elector = LeaderElector::new(server.client(&links[who]), options)
            .unwrap()
            .clock(clock);
        let turns = Arc::clone(&turns);
        let life = async move {
            let lead = |_: Stop| {
                let turns = Arc::clone(&turns);
                async move {
                    let mine = turns.fetch_add(1, Ordering::SeqCst) + 1;
                    loop {
                        // Told to stop or not: this one never listens.
                        assert_eq!(turns.load(Ordering::SeqCst), mine, "an earlier leader acts");
                        sleep(Duration::from_millis(50)).await;
                    }
                }
            };
            elector.run(&Stop::new(), lead).await;
        };
        processes.spawn(Process {
            resumes: Arc::clone(&resumes[who]),
            future: Box::pin(life),
            alarm: Box::pin(sleep(Duration::ZERO)),
        })
    };
    let mut lives: Vec<_> = (0..3).map(|who| start(who, 0)).collect();
    for (life, (after, trouble)) in troubles.into_iter().enumerate() {
        sleep(Duration::from_millis(after)).await;
        match trouble {
            InjectedFault::Cut(who) => links[who].cut(),
            InjectedFault::Mend(who) => links[who].mend(),
            InjectedFault::Slow(who, there, back) => links[who].set(Fault {
                there: Duration::from_millis(there),
                back: Duration::from_millis(back),
                is_cut: false,
            }),
            InjectedFault::Suspend(who, pause) => {
                *resumes[who].lock().unwrap() = Instant::now() + Duration::from_millis(pause);
            }
            InjectedFault::Crash(who) => {
                lives[who].abort();
                lives[who] = start(who, life + 1);
            }
            InjectedFault::Jump(who, by) => *skews[who].lock().unwrap() = by,
        }
    }
    // Once the troubles are over somebody leads.
    for link in &links {
        link.mend();
    }
    let calm = Instant::now() + Duration::from_mins(2);
    sleep_until(calm).await;
    let turns = turns.load(Ordering::SeqCst);
    while let Some(ended) = processes.try_join_next() {
        if let Err(error) = ended {
            assert!(error.is_cancelled(), "{error}");
        }
    }
    processes.shutdown().await;
    assert!(!server.lease()["spec"]["holderIdentity"].is_null());
    turns
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_nobody_acts_after_the_next_one_leads(troubles in troubles()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let turns = runtime.block_on(play(troubles));
        prop_assert!(turns > 0);
    }
}
