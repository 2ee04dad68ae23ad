//! A simulation of leader election: a server with one lease, unreliable connections, and processes that are suspended.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use parking_lot::{Mutex, MutexGuard};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::{LeaderElectionConfig, LeaderElector};
use crate::{Clock, manager::Stop};

/// An API server with one lease.
#[derive(Clone, Default)]
pub(super) struct LeaseServer {
    state: Arc<Mutex<StoredLease>>,
}

#[derive(Default)]
struct StoredLease {
    lease: Option<Value>,
    version: u64,
    requests: u64,
}

/// The connection of one candidate to the server.
#[derive(Clone, Default)]
pub(super) struct Link {
    fault: Arc<Mutex<LinkFault>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LinkFault {
    /// The latency of requests.
    request_delay: Duration,
    /// The latency of responses.
    response_delay: Duration,
    /// Whether the connection is down.
    is_cut: bool,
}

// --- Server ---

impl LeaseServer {
    pub(super) fn client(&self, link: &Link) -> kube::Client {
        let server = self.clone();
        let link = link.clone();
        let service = tower::service_fn(move |request: Request<Body>| -> BoxFuture<'static, _> {
            let server = server.clone();
            let link = link.clone();
            Box::pin(async move {
                let fault = link.get();
                sleep(fault.request_delay).await;
                if fault.is_cut {
                    sleep(Duration::from_secs(1)).await;
                    return Err("connection refused");
                }
                let response = server.respond(request).await;
                sleep(fault.response_delay).await;
                Ok(response)
            })
        });
        kube::Client::new(service, "default")
    }

    async fn respond(&self, request: Request<Body>) -> Response<Full<bytes::Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body
            .collect()
            .await
            .expect("request bodies are complete")
            .to_bytes();
        let mut stored = self.state();
        stored.requests += 1;
        let (code, content) = match (parts.method, stored.lease.clone()) {
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
            (method, _) => panic!("unexpected method {method}"),
        };
        let body = Full::new(content.to_string().into());
        Response::builder().status(code).body(body).expect("a response")
    }

    /// The current lease.
    pub(super) fn lease(&self) -> Value {
        self.state().lease.clone().unwrap_or_default()
    }

    /// Changes the lease like a user of kubectl.
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

    fn state(&self) -> MutexGuard<'_, StoredLease> {
        self.state.lock()
    }
}

impl StoredLease {
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
    fn get(&self) -> LinkFault {
        *self.fault.lock()
    }

    fn set(&self, fault: LinkFault) {
        *self.fault.lock() = fault;
    }

    /// Cuts the connection.
    pub(super) fn cut(&self) {
        self.set(LinkFault {
            is_cut: true,
            ..LinkFault::default()
        });
    }

    /// Restores the connection.
    pub(super) fn mend(&self) {
        self.set(LinkFault::default());
    }
}

// --- suspended processes ---

/// A future that is not polled until a given time, like a suspended process.
struct SuspendableProcess<F> {
    resumes: Arc<Mutex<Instant>>,
    future: Pin<Box<F>>,
    alarm: Pin<Box<tokio::time::Sleep>>,
}

impl<F: Future> Future for SuspendableProcess<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let resumes = *self.resumes.lock();
        if resumes > Instant::now() {
            self.alarm.as_mut().reset(resumes);
            if self.alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        self.future.as_mut().poll(context)
    }
}

// --- safety property ---

/// A fault of one candidate.
#[derive(Clone, Debug)]
enum InjectedFault {
    Cut(usize),
    Mend(usize),
    Slow(usize, u64, u64),
    Suspend(usize, u64),
    Crash(usize),
    Jump(usize, i64),
}

fn injected_faults() -> impl Strategy<Value = Vec<(u64, InjectedFault)>> {
    let candidate = 0..3_usize;
    let fault = prop_oneof![
        candidate.clone().prop_map(InjectedFault::Cut),
        candidate.clone().prop_map(InjectedFault::Mend),
        (candidate.clone(), 0..9_000_u64, 0..9_000_u64).prop_map(
            |(candidate, request_delay, response_delay)| InjectedFault::Slow(
                candidate,
                request_delay,
                response_delay
            )
        ),
        (candidate.clone(), 0..40_000_u64)
            .prop_map(|(candidate, pause)| InjectedFault::Suspend(candidate, pause)),
        candidate.clone().prop_map(InjectedFault::Crash),
        (candidate, -100_000..100_000_i64).prop_map(|(candidate, by)| InjectedFault::Jump(candidate, by)),
    ];
    prop::collection::vec((0..20_000_u64, fault), 1..25)
}

/// Runs three candidates with the given faults. Asserts that only the latest leader acts, and returns the number of terms.
async fn simulate(faults: Vec<(u64, InjectedFault)>) -> u64 {
    let server = LeaseServer::default();
    let terms = Arc::new(AtomicU64::new(0));
    let links: Vec<Link> = (0..3).map(|_| Link::default()).collect();
    let resumes: Vec<_> = (0..3).map(|_| Arc::new(Mutex::new(Instant::now()))).collect();
    let skews: Vec<_> = (0..3).map(|_| Arc::new(Mutex::new(0_i64))).collect();
    let mut processes = JoinSet::new();
    let mut start = |candidate: usize, life: usize| {
        let mut options = LeaderElectionConfig::new("default", "test");
        options.identity = format!("candidate-{candidate}-{life}");
        let skew = Arc::clone(&skews[candidate]);
        let clock = Clock::new(move || {
            let skew = *skew.lock();
            k8s_openapi::jiff::Timestamp::from_millisecond(1_700_000_000_000 + skew).unwrap()
        });
        let elector = LeaderElector::new(server.client(&links[candidate]), options)
            .unwrap()
            .clock(clock);
        let terms = Arc::clone(&terms);
        let life = async move {
            let lead = |_: Stop| {
                let terms = Arc::clone(&terms);
                async move {
                    let mine = terms.fetch_add(1, Ordering::SeqCst) + 1;
                    loop {
                        // This leader ignores its stop signal.
                        assert_eq!(terms.load(Ordering::SeqCst), mine, "a former leader acts");
                        sleep(Duration::from_millis(50)).await;
                    }
                }
            };
            elector.run(&Stop::new(), lead).await;
        };
        processes.spawn(SuspendableProcess {
            resumes: Arc::clone(&resumes[candidate]),
            future: Box::pin(life),
            alarm: Box::pin(sleep(Duration::ZERO)),
        })
    };
    let mut lives: Vec<_> = (0..3).map(|candidate| start(candidate, 0)).collect();
    for (life, (after, fault)) in faults.into_iter().enumerate() {
        sleep(Duration::from_millis(after)).await;
        match fault {
            InjectedFault::Cut(candidate) => links[candidate].cut(),
            InjectedFault::Mend(candidate) => links[candidate].mend(),
            InjectedFault::Slow(candidate, request_delay, response_delay) => {
                links[candidate].set(LinkFault {
                    request_delay: Duration::from_millis(request_delay),
                    response_delay: Duration::from_millis(response_delay),
                    is_cut: false,
                });
            }
            InjectedFault::Suspend(candidate, pause) => {
                *resumes[candidate].lock() = Instant::now() + Duration::from_millis(pause);
            }
            InjectedFault::Crash(candidate) => {
                lives[candidate].abort();
                lives[candidate] = start(candidate, life + 1);
            }
            InjectedFault::Jump(candidate, by) => *skews[candidate].lock() = by,
        }
    }
    // After the faults, a candidate leads.
    for link in &links {
        link.mend();
    }
    let settled = Instant::now() + Duration::from_mins(2);
    sleep_until(settled).await;
    let terms = terms.load(Ordering::SeqCst);
    while let Some(ended) = processes.try_join_next() {
        if let Err(error) = ended {
            assert!(error.is_cancelled(), "{error}");
        }
    }
    processes.shutdown().await;
    assert!(!server.lease()["spec"]["holderIdentity"].is_null());
    terms
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn former_leader_never_acts(faults in injected_faults()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let terms = runtime.block_on(simulate(faults));
        prop_assert!(terms > 0);
    }
}
