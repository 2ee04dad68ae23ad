//! One decision: a pod and its node, or why there is none.

mod nominator;
mod scheduling_algorithm;
#[cfg(test)]
mod tests;

pub(crate) use nominator::Nominator;
pub(crate) use scheduling_algorithm::{Placement, ScheduleResult, SchedulingAlgorithm};
