//! One candidate.

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
use crate::{Clock, manager::Stop, metrics::Metrics};

/// A candidate for a lease.
pub struct LeaderElector {
    leases: Api<Lease>,
    options: LeaderElectionConfig,
    clock: Clock,
    metrics: Metrics,
    status: watch::Sender<LeaderStatus>,
}

/// How an election stands, as far as a candidate knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderStatus {
    /// Who leads.
    pub leader: Option<String>,
    /// Whether that is this candidate.
    pub is_leading: bool,
}

/// A time of leading.
struct LeaderTerm {
    /// The lease as it was written last.
    lease: Lease,
    /// Before the last renewal that succeeded was sent.
    renewed: Instant,
}

/// How a term ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The tasks have ended because they were told to, and the lease is still ours.
    Joined,
    /// The tasks were dropped, by a deadline that was not the lease's.
    Dropped,
    /// The lease is not ours any more, or may soon not be.
    Lost,
}

enum Renewal {
    Done(Box<LeaderTerm>),
    Late,
    Lost,
}

// --- LeaderElector ---

impl LeaderElector {
    /// A candidate, if the settings make sense.
    pub fn new(client: Client, options: LeaderElectionConfig) -> Result<Self, LeaderElectionConfigError> {
        options.check()?;
        Ok(LeaderElector {
            leases: Api::namespaced(client, &options.namespace),
            options,
            clock: Clock::system(),
            metrics: Metrics::default(),
            status: watch::Sender::new(LeaderStatus::default()),
        })
    }

    /// With another clock; it is only written down.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Shows there whether this candidate leads.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = metrics.clone();
        self
    }

    /// How the election stands, and when that changes.
    pub fn status(&self) -> watch::Receiver<LeaderStatus> {
        self.status.subscribe()
    }

    /// Waits for its turn and leads, again and again, until it is stopped.
    ///
    /// Each turn calls `lead`. Its future has to end soon after the term's stop; it is dropped by the deadline of that stop.
    /// A future that ends sooner keeps the turn: nobody else is to do its work.
    pub async fn run<F, Fut>(&self, stop: &Stop, mut lead: F)
    where
        F: FnMut(Stop) -> Fut,
        Fut: Future<Output = ()>,
    {
        self.metrics.set_leader(&self.options.name, false);
        let mut seen = ObservedLease::default();
        let mut chance = Jitter::of(&self.options.identity);
        while let Some(mut term) = self.campaign(stop, &mut seen, &mut chance).await {
            info!(
                lease = self.options.name,
                identity = self.options.identity,
                "became leader"
            );
            self.show(Some(self.options.identity.clone()));
            let end = self.serve(&mut term, stop, &mut lead).await;
            self.show(None);
            match end {
                End::Joined => return self.release(&term, stop).await,
                End::Dropped => {
                    warn!(
                        lease = self.options.name,
                        "tasks did not end in time: the lease is left to lapse"
                    );
                    return;
                }
                End::Lost => warn!(
                    lease = self.options.name,
                    "stopped leading, waiting for the next turn"
                ),
            }
        }
    }

    /// Waits for the lease. None if it was stopped before.
    async fn campaign(
        &self,
        stop: &Stop,
        seen: &mut ObservedLease,
        chance: &mut Jitter,
    ) -> Option<LeaderTerm> {
        loop {
            // An attempt is not dropped half done: it could have got the lease, and others would wait for nobody.
            let patience = self.options.renew_deadline;
            match stop.until_expired(timeout(patience, self.attempt(seen))).await? {
                Ok(Ok(Some(term))) if stop.is_stopped() => {
                    self.release(&term, stop).await;
                    return None;
                }
                Ok(Ok(Some(term))) => return Some(term),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => warn!(lease = self.options.name, %error, "cannot look at the lease"),
                Err(_) => warn!(lease = self.options.name, "no answer about the lease"),
            }
            let pause = self.options.retry.mul_f64(1.0 + JITTER * chance.next());
            stop.unless_stopped(sleep(pause)).await?;
        }
    }

    /// Takes the lease if it is to be had.
    async fn attempt(&self, seen: &mut ObservedLease) -> Result<Option<LeaderTerm>, kube::Error> {
        let old = self.leases.get_opt(&self.options.name).await?;
        if let Some(lease) = &old {
            let unchanged = seen.look(lease, Instant::now());
            let holder = record::holder(lease);
            let is_free = match holder {
                None => true,
                Some(holder) => {
                    holder == self.options.identity || unchanged >= record::duration(lease, &self.options)
                }
            };
            if !is_free {
                self.show(holder.map(str::to_owned));
                return Ok(None);
            }
        }
        let renewed = Instant::now();
        match self.hold(old.as_ref()).await {
            Ok(lease) => Ok(Some(LeaderTerm { lease, renewed })),
            Err(error) if is_conflict(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes that we hold the lease, provided that it still is as it was.
    async fn hold(&self, old: Option<&Lease>) -> Result<Lease, kube::Error> {
        let new = record::held(old, &self.options, self.clock.now());
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
    async fn serve<F, Fut>(&self, term: &mut LeaderTerm, stop: &Stop, lead: &mut F) -> End
    where
        F: FnMut(Stop) -> Fut,
        Fut: Future<Output = ()>,
    {
        let term_stop = stop.child();
        let mut tasks = pin!(lead(term_stop.clone()));
        let mut tasks_run = true;
        loop {
            if !tasks_run && stop.is_stopped() {
                return End::Joined;
            }
            let late = sleep_until(term.renewed + self.options.renew_deadline);
            let renewal = self.renew(term);
            // The order matters: a process that was suspended looks at the clock before its tasks go on.
            tokio::select! {
                biased;
                () = late => break,
                () = stop.expired(), if tasks_run => return End::Dropped,
                () = stop.stopped(), if !tasks_run => return End::Joined,
                () = &mut tasks, if tasks_run => {
                    tasks_run = false;
                }
                renewal = renewal => match renewal {
                    Renewal::Done(renewed) => *term = *renewed,
                    Renewal::Late => break,
                    // Somebody else leads already: nothing here may go on.
                    Renewal::Lost => return End::Lost,
                },
            }
        }
        warn!(lease = self.options.name, "could not renew the lease in time");
        if tasks_run {
            let last = term.renewed + self.options.fence();
            term_stop.stop(last.saturating_duration_since(Instant::now()));
            tokio::select! {
                biased;
                () = sleep_until(last) => warn!(lease = self.options.name, "tasks of the leader are dropped"),
                () = tasks => {}
            }
        }
        if stop.is_stopped() {
            End::Dropped
        } else {
            End::Lost
        }
    }

    /// Waits for the time to renew, and tries until it succeeds or is too late.
    async fn renew(&self, term: &LeaderTerm) -> Renewal {
        sleep_until(term.renewed + self.options.retry).await;
        let mut lease = Some(term.lease.clone());
        loop {
            let renewed = Instant::now();
            if renewed >= term.renewed + self.options.renew_deadline {
                return Renewal::Late;
            }
            let try_once = async {
                match self.hold(lease.as_ref()).await {
                    Err(error) if is_conflict(&error) || is_gone(&error) => {
                        let known = self.leases.get_opt(&self.options.name).await?;
                        Ok(Err(known))
                    }
                    Ok(lease) => Ok(Ok(lease)),
                    Err(error) => Err(error),
                }
            };
            match timeout(self.options.renew_deadline / 2, try_once).await {
                Ok(Ok(Ok(lease))) => return Renewal::Done(Box::new(LeaderTerm { lease, renewed })),
                Ok(Ok(Err(known))) => {
                    let is_ours = |known: &Lease| record::holder(known) == Some(&self.options.identity);
                    if known.as_ref().is_some_and(|known| !is_ours(known)) {
                        return Renewal::Lost;
                    }
                    // Somebody wrote something else into it, or an answer was lost; or it was deleted.
                    debug!(
                        lease = self.options.name,
                        "the lease was changed by somebody else"
                    );
                    lease = known;
                    sleep(self.options.retry / 10).await;
                    continue;
                }
                Ok(Err(error)) => warn!(lease = self.options.name, %error, "cannot renew the lease"),
                Err(_) => warn!(lease = self.options.name, "no answer to the renewal of the lease"),
            }
            sleep(self.options.retry).await;
        }
    }

    /// Gives the lease back. If that fails it lapses.
    async fn release(&self, term: &LeaderTerm, stop: &Stop) {
        let patience = self
            .options
            .renew_deadline
            .min(stop.remaining().max(Duration::from_secs(1)));
        let mut lease = term.lease.clone();
        let give_back = async {
            loop {
                let free = record::released(&lease, self.clock.now());
                match self
                    .leases
                    .replace(&self.options.name, &PostParams::default(), &free)
                    .await
                {
                    Err(error) if is_conflict(&error) => match self.leases.get_opt(&self.options.name).await?
                    {
                        Some(known) if record::holder(&known) == Some(&self.options.identity) => {
                            lease = known;
                        }
                        _ => return Ok(()),
                    },
                    done => return done.map(drop),
                }
            }
        };
        match timeout(patience, give_back).await {
            Ok(Ok(())) => info!(lease = self.options.name, "gave the lease back"),
            Ok(Err(error)) => warn!(lease = self.options.name, %error, "could not give the lease back"),
            Err(_) => warn!(lease = self.options.name, "could not give the lease back in time"),
        }
    }

    fn show(&self, leader: Option<String>) {
        let is_leading = leader.as_deref() == Some(&self.options.identity);
        let status = LeaderStatus { leader, is_leading };
        self.status.send_if_modified(|old| {
            if *old == status {
                return false;
            }
            if old.is_leading != is_leading {
                self.metrics.set_leader(&self.options.name, is_leading);
            }
            *old = status;
            true
        });
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

// --- chance ---

/// Numbers that differ between candidates, so that they do not all look at the same moment.
struct Jitter(u64);

impl Jitter {
    fn of(identity: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        identity.hash(&mut hasher);
        Jitter(hasher.finish() | 1)
    }

    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let high = u32::try_from(self.0 >> 32).unwrap_or(u32::MAX);
        f64::from(high) / f64::from(u32::MAX)
    }
}
