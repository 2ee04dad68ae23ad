//! One decision: a pod and its node, or why there is none.

mod engine;
mod nominator;
mod preempt;
#[cfg(test)]
mod tests;
mod victims;

pub use engine::{Engine, Found, Placement, Unfit};
pub use nominator::Nominator;
pub use preempt::{Preemption, Tried};
