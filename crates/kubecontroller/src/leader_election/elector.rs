//! A candidate in a leader election.

use std::{
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
    pin::pin,
    time::Duration,
};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::PostParams};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{debug, info, warn};

use super::{
    LeaderElectionConfig, LeaderElectionConfigError,
    options::JITTER,
    record::{self, ObservedLease},
};
use crate::{
    Clock,
    manager::Stop,
    metrics::{LeaseRole, Metrics},
    writer::{has_status_code, is_not_found},
};

/// A candidate for a lease.
// upstream: staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go LeaderElector
pub struct LeaderElector {
    leases: Api<Lease>,
    options: LeaderElectionConfig,
    clock: Clock,
    metrics: Metrics,
    status: watch::Sender<LeaderStatus>,
}

/// The election as this candidate sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderStatus {
    /// The identity of the leader, if known.
    pub leader: Option<String>,
    /// Whether this candidate is the leader.
    pub is_leading: bool,
}

/// A term as leader.
struct LeaderTerm {
    /// The lease as it was written last.
    lease: Lease,
    /// The time just before the last successful renewal was sent. Other candidates count from its arrival, which is later.
    renewed: Instant,
}

/// How a term ended.
#[derive(Debug, PartialEq, Eq)]
enum TermEnd {
    /// The tasks ended because they were stopped, and the lease is still held.
    Joined,
    /// The tasks were dropped by a deadline of the shutdown, while the lease is still held.
    Dropped,
    /// The lease is lost or about to expire.
    Lost,
}

enum Renewal {
    Done(Box<LeaderTerm>),
    TimedOut,
    Lost,
}

// --- LeaderElector ---

impl LeaderElector {
    /// Creates a candidate. Fails if the configuration is invalid.
    pub fn new(client: Client, options: LeaderElectionConfig) -> Result<Self, LeaderElectionConfigError> {
        options.validate()?;
        Ok(LeaderElector {
            leases: Api::namespaced(client, &options.namespace),
            options,
            clock: Clock::system(),
            metrics: Metrics::default(),
            status: watch::Sender::new(LeaderStatus::default()),
        })
    }

    /// Sets the clock of the timestamps in the lease. Decisions use the monotonic clock instead.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the metrics that report whether this candidate leads.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = metrics.clone();
        self
    }

    /// The status of the election, and its changes.
    pub fn status(&self) -> watch::Receiver<LeaderStatus> {
        self.status.subscribe()
    }

    /// Campaigns for the lease and leads, term after term, until it is stopped.
    ///
    /// Each term calls `lead`. Its future must end soon after its `Stop` is triggered and is dropped at the deadline of that
    /// stop. If the future ends earlier, the candidate keeps the lease, so that no other process repeats its work.
    // upstream: staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go LeaderElector.Run
    pub async fn run<F, Fut>(&self, stop: &Stop, mut lead: F)
    where
        F: FnMut(Stop) -> Fut,
        Fut: Future<Output = ()>,
    {
        self.metrics.set_leader(&self.options.name, LeaseRole::Candidate);
        let mut seen = ObservedLease::default();
        let mut jitter = Jitter::new(&self.options.identity);
        while let Some(mut term) = self.campaign(stop, &mut seen, &mut jitter).await {
            info!(
                lease = self.options.name,
                identity = self.options.identity,
                "became leader"
            );
            self.set_status(Some(self.options.identity.clone()));
            let end = self.lead_term(&mut term, stop, &mut lead).await;
            self.set_status(None);
            match end {
                TermEnd::Joined => return self.release(&term, stop).await,
                TermEnd::Dropped => {
                    warn!(
                        lease = self.options.name,
                        "tasks did not end by the deadline; the lease is left to expire"
                    );
                    return;
                }
                TermEnd::Lost => warn!(
                    lease = self.options.name,
                    "lost leadership; waiting for the next term"
                ),
            }
        }
    }

    /// Waits for the lease. Returns none if the candidate was stopped first.
    // upstream: staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go LeaderElector.acquire
    async fn campaign(
        &self,
        stop: &Stop,
        seen: &mut ObservedLease,
        jitter: &mut Jitter,
    ) -> Option<LeaderTerm> {
        loop {
            // An attempt is never cancelled midway: it may have acquired the lease, and then no candidate would lead until it expires.
            let limit = self.options.renew_deadline;
            match stop.until_expired(timeout(limit, self.attempt(seen))).await? {
                Ok(Ok(Some(term))) if stop.is_stopped() => {
                    self.release(&term, stop).await;
                    return None;
                }
                Ok(Ok(Some(term))) => return Some(term),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => warn!(lease = self.options.name, %error, "failed to acquire the lease"),
                Err(_) => warn!(lease = self.options.name, "timed out acquiring the lease"),
            }
            let pause = self.options.retry.mul_f64(1.0 + JITTER * jitter.next());
            stop.unless_stopped(sleep(pause)).await?;
        }
    }

    /// Acquires the lease if it is free or expired.
    // upstream: staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go LeaderElector.tryAcquireOrRenew
    async fn attempt(&self, seen: &mut ObservedLease) -> Result<Option<LeaderTerm>, kube::Error> {
        let old = self.leases.get_opt(&self.options.name).await?;
        if let Some(lease) = &old {
            let unchanged = seen.observe(lease, Instant::now());
            let holder = record::holder(lease);
            let is_free = match holder {
                None => true,
                Some(holder) => {
                    holder == self.options.identity || unchanged >= record::duration(lease, &self.options)
                }
            };
            if !is_free {
                self.set_status(holder.map(str::to_owned));
                return Ok(None);
            }
        }
        let renewed = Instant::now();
        match self.write_holder(old.as_ref()).await {
            Ok(lease) => Ok(Some(LeaderTerm { lease, renewed })),
            Err(error) if has_status_code(&error, 409) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes this candidate as holder. The resource version in `old` makes the write fail if the lease has changed.
    async fn write_holder(&self, old: Option<&Lease>) -> Result<Lease, kube::Error> {
        let new = record::acquired(old, &self.options, self.clock.now());
        match old {
            None => self.leases.create(&PostParams::default(), &new).await,
            Some(_) => {
                self.leases
                    .replace(&self.options.name, &PostParams::default(), &new)
                    .await
            }
        }
    }

    /// Leads as long as the lease can be renewed.
    async fn lead_term<F, Fut>(&self, term: &mut LeaderTerm, stop: &Stop, lead: &mut F) -> TermEnd
    where
        F: FnMut(Stop) -> Fut,
        Fut: Future<Output = ()>,
    {
        let term_stop = stop.child();
        let mut tasks = pin!(lead(term_stop.clone()));
        let mut tasks_run = true;
        loop {
            if !tasks_run && stop.is_stopped() {
                return TermEnd::Joined;
            }
            let late = sleep_until(term.renewed + self.options.renew_deadline);
            let renewal = self.renew(term);
            // The order matters: a process that was suspended must check the deadline before its tasks continue.
            tokio::select! {
                biased;
                () = late => break,
                () = stop.expired(), if tasks_run => return TermEnd::Dropped,
                () = stop.stopped(), if !tasks_run => return TermEnd::Joined,
                () = &mut tasks, if tasks_run => {
                    tasks_run = false;
                }
                renewal = renewal => match renewal {
                    Renewal::Done(renewed) => *term = *renewed,
                    Renewal::TimedOut => break,
                    // Another candidate leads already, so the tasks must not continue even to clean up.
                    Renewal::Lost => return TermEnd::Lost,
                },
            }
        }
        warn!(
            lease = self.options.name,
            "failed to renew the lease in time; stopping leader tasks"
        );
        if tasks_run {
            let last = term.renewed + self.options.fence();
            term_stop.stop(last.saturating_duration_since(Instant::now()));
            tokio::select! {
                biased;
                () = sleep_until(last) => warn!(lease = self.options.name, "dropped leader tasks before the lease expires"),
                () = tasks => {}
            }
        }
        if stop.is_stopped() {
            TermEnd::Dropped
        } else {
            TermEnd::Lost
        }
    }

    /// Waits for the retry period, and then renews the lease until it succeeds or the deadline passes.
    // upstream: staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go LeaderElector.renew
    async fn renew(&self, term: &LeaderTerm) -> Renewal {
        sleep_until(term.renewed + self.options.retry).await;
        let mut lease = Some(term.lease.clone());
        loop {
            let renewed = Instant::now();
            if renewed >= term.renewed + self.options.renew_deadline {
                return Renewal::TimedOut;
            }
            let try_once = async {
                match self.write_holder(lease.as_ref()).await {
                    Err(error) if has_status_code(&error, 409) || is_not_found(&error) => {
                        let current = self.leases.get_opt(&self.options.name).await?;
                        Ok(Err(current))
                    }
                    Ok(lease) => Ok(Ok(lease)),
                    Err(error) => Err(error),
                }
            };
            match timeout(self.options.renew_deadline / 2, try_once).await {
                Ok(Ok(Ok(lease))) => return Renewal::Done(Box::new(LeaderTerm { lease, renewed })),
                Ok(Ok(Err(current))) => {
                    let is_ours = |current: &Lease| record::holder(current) == Some(&self.options.identity);
                    if current.as_ref().is_some_and(|current| !is_ours(current)) {
                        return Renewal::Lost;
                    }
                    // Another client changed other fields, the response to an earlier renewal was lost, or the lease was deleted.
                    debug!(
                        lease = self.options.name,
                        "lease was changed by another client; renewing the new version"
                    );
                    lease = current;
                    sleep(self.options.retry / 10).await;
                    continue;
                }
                Ok(Err(error)) => warn!(lease = self.options.name, %error, "failed to renew the lease"),
                Err(_) => warn!(lease = self.options.name, "timed out renewing the lease"),
            }
            sleep(self.options.retry).await;
        }
    }

    /// Releases the lease. If that fails, it expires.
    // upstream: staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go LeaderElector.release
    async fn release(&self, term: &LeaderTerm, stop: &Stop) {
        let limit = self
            .options
            .renew_deadline
            .min(stop.remaining().max(Duration::from_secs(1)));
        let mut lease = term.lease.clone();
        let release = async {
            loop {
                let free = record::released(&lease, self.clock.now());
                match self
                    .leases
                    .replace(&self.options.name, &PostParams::default(), &free)
                    .await
                {
                    Err(error) if has_status_code(&error, 409) => {
                        match self.leases.get_opt(&self.options.name).await? {
                            Some(current) if record::holder(&current) == Some(&self.options.identity) => {
                                lease = current;
                            }
                            _ => return Ok(()),
                        }
                    }
                    done => return done.map(drop),
                }
            }
        };
        match timeout(limit, release).await {
            Ok(Ok(())) => info!(lease = self.options.name, "released the lease"),
            Ok(Err(error)) => warn!(lease = self.options.name, %error, "failed to release the lease"),
            Err(_) => warn!(lease = self.options.name, "timed out releasing the lease"),
        }
    }

    fn set_status(&self, leader: Option<String>) {
        let is_leading = leader.as_deref() == Some(&self.options.identity);
        let status = LeaderStatus { leader, is_leading };
        self.status.send_if_modified(|old| {
            if *old == status {
                return false;
            }
            if old.is_leading != is_leading {
                let role = if is_leading {
                    LeaseRole::Leader
                } else {
                    LeaseRole::Candidate
                };
                self.metrics.set_leader(&self.options.name, role);
            }
            *old = status;
            true
        });
    }
}

// --- Jitter ---

/// A random number generator seeded by the identity, so that candidates do not all retry at the same time.
struct Jitter(u64);

impl Jitter {
    fn new(identity: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        identity.hash(&mut hasher);
        Jitter(hasher.finish() | 1)
    }

    /// The next number between 0 and 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let high = u32::try_from(self.0 >> 32).unwrap_or(u32::MAX);
        f64::from(high) / f64::from(u32::MAX)
    }
}
