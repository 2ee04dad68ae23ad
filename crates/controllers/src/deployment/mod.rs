//! Rolls out the template of a deployment: a replica set for each template, and the pods moved from the old ones to the new.

mod condition;
mod plan;
mod progress;
mod rollback;
mod rollout;
mod set;
#[cfg(test)]
mod tests;
