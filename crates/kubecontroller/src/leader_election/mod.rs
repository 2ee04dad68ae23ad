//! Leader election with a lease.
//!
//! The replicas of a program elect a leader by means of a `coordination.k8s.io/v1` Lease, which the leader keeps renewing.
//!
//! Guarantees:
//! - At most one replica leads at a time. The tasks of the leader are stopped when the lease could not be renewed for
//!   [`LeaderElectionConfig::renew_deadline`], and dropped before other replicas may take over, which is
//!   [`LeaderElectionConfig::duration`] after the last renewal.
//! - Clocks of different machines are not compared. Candidates measure on their own monotonic clock for how long the lease
//!   has not changed; the leader measures from just before it sent its last successful renewal. Wall clocks may jump.
//! - A leader that is stopped releases the lease only after its tasks have ended, so that the next leader can start at once.
//! - The loss of the lease ends a term, not the process, which then campaigns again.
//!
//! Limit of every lease: a process that was suspended notices it only after it resumes. Its tasks may reach their next await
//! point before they are dropped. Writes that must never be late must carry a resource version.
//!
//! ```no_run
//! # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use kubecontroller::{leader_election::{LeaderElector, LeaderElectionConfig}, manager::Stop};
//!
//! let elector = LeaderElector::new(client, LeaderElectionConfig::new("kube-system", "my-operator"))?;
//! let stop = Stop::new();
//! elector.run(&stop, |term| async move {
//!     println!("started leading");
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
