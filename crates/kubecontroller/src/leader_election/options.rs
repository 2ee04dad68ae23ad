//! What an elector is told when it is made.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

/// The settings of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElectionConfig {
    /// The namespace of the lease.
    pub namespace: String,
    /// The name of the lease. All replicas have the same.
    pub name: String,
    /// Who this is. No other process may have the same, nor may this one after a restart; see [`unique_identity`].
    pub identity: String,
    /// For how long others leave the lease alone after a renewal. Default: 15 s. After a crash nobody leads for so long.
    pub duration: Duration,
    /// For how long a leader goes on without a successful renewal. Default: 10 s. What is left of the duration is the time
    /// that its tasks have to end.
    pub renew_deadline: Duration,
    /// How often the lease is renewed, or looked at. Default: 2 s; others look up to 1.2 times that later, each in his turn.
    pub retry: Duration,
}

/// Settings that would not elect a leader, or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaderElectionConfigError {
    /// The time to renew is not shorter than the lease.
    #[error("the renew deadline must be shorter than the lease duration")]
    LateRenewal,
    /// There is no time for two tries.
    #[error("the retry period, with its jitter of 1.2, must be shorter than the renew deadline")]
    RareRetry,
    /// The API writes whole seconds.
    #[error("the lease duration must be at least a second")]
    ShortLease,
    /// A name, a namespace or an identity is missing.
    #[error("a lease needs a namespace, a name and an identity")]
    Nameless,
}

/// How much later than after the retry period a look may come, as a part of it.
pub(super) const JITTER: f64 = 1.2;

// --- LeaderElectionConfig ---

impl LeaderElectionConfig {
    /// 15, 10 and 2 seconds, and an identity of this process.
    pub fn new(namespace: &str, name: &str) -> Self {
        LeaderElectionConfig {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: unique_identity(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }

    /// Whether these settings elect one leader.
    pub fn check(&self) -> Result<(), LeaderElectionConfigError> {
        if [&self.namespace, &self.name, &self.identity]
            .iter()
            .any(|text| text.is_empty())
        {
            return Err(LeaderElectionConfigError::Nameless);
        }
        if self.duration < Duration::from_secs(1) {
            return Err(LeaderElectionConfigError::ShortLease);
        }
        if self.renew_deadline >= self.duration {
            return Err(LeaderElectionConfigError::LateRenewal);
        }
        if self.retry.mul_f64(JITTER) >= self.renew_deadline || self.retry.is_zero() {
            return Err(LeaderElectionConfigError::RareRetry);
        }
        Ok(())
    }

    /// How long after a renewal the tasks are dropped: a fifth of what is left of the lease is kept back for timers that
    /// are late.
    pub(super) fn fence(&self) -> Duration {
        let left = self.duration.saturating_sub(self.renew_deadline);
        self.renew_deadline + left * 4 / 5
    }
}

/// An identity that no other process has: the name of the host, and random digits.
pub fn unique_identity() -> String {
    let host = hostname();
    let random = RandomState::new().build_hasher().finish();
    format!("{host}_{random:016x}")
}

/// The name of the host; that of the pod in a cluster.
pub(crate) fn hostname() -> String {
    let known = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let known = known.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    known.map_or_else(|| "localhost".to_owned(), |name| name.trim().to_owned())
}
