//! The garbage collector: what is owned goes with its owners.

mod absent;
mod collector;
mod dependent;
mod graph;
mod verdict;
