//! One decision: a pod and its node, or why there is none.

mod nominator;
mod preemption;
mod scheduling_algorithm;
#[cfg(test)]
mod tests;
mod victims;

pub(crate) use nominator::Nominator;
pub(crate) use preemption::{Candidate, PostFilterResult};
pub(crate) use scheduling_algorithm::{Placement, ScheduleResult, SchedulingAlgorithm};
