//! The garbage collector: what is owned goes with its owners.

mod dependent;
mod graph;
