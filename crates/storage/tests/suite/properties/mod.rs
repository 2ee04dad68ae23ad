//! Random histories, decided against the model and by the rules of linearizability.

mod concurrent;
mod scenario;
pub(crate) mod seed;
mod sequential;
