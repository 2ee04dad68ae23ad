//! Random histories, judged against the model and by the rules of linearizability.

mod concurrent;
mod plan;
pub(crate) mod seed;
mod sequential;
