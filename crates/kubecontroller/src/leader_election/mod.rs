//! Leader election by lease.
//!
//! Replicas of a program agree on one of them, by a `coordination.k8s.io/v1` Lease that the leader keeps renewing.
//!
//! Promises:
//! - At most one of them leads at a time. The tasks of a leader are told to stop when it could not renew for
//!   [`LeaderElectionConfig::renew_deadline`], and dropped before others may take over, [`LeaderElectionConfig::duration`] after the last renewal.
//! - No clocks are compared. Others judge a leader by how long, on their own monotonic clock, the lease has not changed; a
//!   leader judges itself from before it sent its last successful renewal. The time of day may jump as it likes.
//! - A leader that stops gives the lease back when its tasks have ended, and only then, so that the next one begins at once.
//! - Losing the lease ends a term, not the process: it waits for its next turn.
//!
//! What no lease can promise: a process that was suspended as a whole notices that only when it goes on. Its tasks may get as
//! far as their next await before they are dropped. Writes that must never be late carry a resource version.
//!
//! ```no_run
//! # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use kubecontroller::{leader_election::{LeaderElector, LeaderElectionConfig}, manager::Stop};
//!
//! let elector = LeaderElector::new(client, LeaderElectionConfig::new("kube-system", "my-operator"))?;
//! let stop = Stop::new();
//! elector.run(&stop, |term| async move {
//!     println!("my turn");
//!     term.stopped().await;
//! }).await;
//! # Ok(()) }
//! ```

mod elector;
mod options;
mod record;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub(crate) use self::options::hostname;
pub use self::{
    elector::{LeaderElector, LeaderStatus},
    options::{LeaderElectionConfig, LeaderElectionConfigError, unique_identity},
};
