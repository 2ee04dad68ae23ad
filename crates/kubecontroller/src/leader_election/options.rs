//! The configuration of leader election.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

/// The configuration of leader election.
// upstream: staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go LeaderElectionConfig
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElectionConfig {
    /// The namespace of the lease.
    pub namespace: String,
    /// The name of the lease, the same for all replicas.
    pub name: String,
    /// The identity of this candidate. No other process may have the same, including this one after a restart; see
    /// [`unique_identity`].
    pub identity: String,
    /// How long other candidates wait after the last observed renewal before they acquire the lease. Default: 15 s. After a
    /// crash of the leader, no process leads for this long.
    pub duration: Duration,
    /// How long the leader retries to renew before it stops leading. Default: 10 s. The difference to `duration` is the time
    /// for its tasks to end.
    pub renew_deadline: Duration,
    /// The interval between renewals. Default: 2 s. Other candidates check the lease at this interval plus a jitter of up to
    /// 1.2 times the interval.
    pub retry: Duration,
}

/// Why a configuration is invalid: with it, no process or more than one process could lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaderElectionConfigError {
    /// The renew deadline is not shorter than the lease duration.
    #[error("the renew deadline must be shorter than the lease duration")]
    LateRenewal,
    /// The renew deadline leaves no time for a retry.
    #[error("the retry period, with its jitter of 1.2, must be shorter than the renew deadline")]
    RareRetry,
    /// The lease duration is stored in whole seconds.
    #[error("the lease duration must be at least a second")]
    ShortLease,
    /// Namespace, name or identity is empty.
    #[error("leader election requires a namespace, a name and an identity")]
    Nameless,
}

/// The maximal jitter of a retry, as a fraction of the retry period.
// upstream: staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go LeaderElector; `JitterFactor` has the same value
pub(super) const JITTER: f64 = 1.2;

// --- LeaderElectionConfig ---

impl LeaderElectionConfig {
    /// Creates a configuration with the default times and a unique identity.
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

    /// Validates the configuration.
    // upstream: staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go NewLeaderElector
    pub fn validate(&self) -> Result<(), LeaderElectionConfigError> {
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

    /// How long after a renewal the tasks are dropped. A fifth of the time between renew deadline and expiry is a reserve for
    /// late timers.
    pub(super) fn fence(&self) -> Duration {
        let left = self.duration.saturating_sub(self.renew_deadline);
        self.renew_deadline + left * 4 / 5
    }
}

/// An identity that no other process has: the host name and a random number.
pub fn unique_identity() -> String {
    let host = hostname();
    let random = RandomState::new().build_hasher().finish();
    format!("{host}_{random:016x}")
}

/// The host name, which is the name of the pod in a cluster.
pub(crate) fn hostname() -> String {
    let current = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let current = current.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    current.map_or_else(|| "localhost".to_owned(), |name| name.trim().to_owned())
}
