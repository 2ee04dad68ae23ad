//! Random histories, judged against the model and by the rules of linearizability.

mod concurrent;
mod plan;
mod seed;
mod sequential;
