//! One decision: a pod and its node, or why there is none.

mod scheduling_algorithm;
mod nominator;
mod preemption;
#[cfg(test)]
mod tests;
mod victims;

pub(crate) use scheduling_algorithm::{SchedulingAlgorithm, ScheduleResult, Placement};
pub(crate) use nominator::Nominator;
pub(crate) use preemption::{Candidate, PostFilterResult};
