//! Which node runs which pod.

mod cluster;
mod core;
mod cycle;
mod dice;
mod event;
mod fold;
mod labels;
mod number;
pub mod object;
mod plugins;
mod pool;
mod profile;
mod queue;
#[cfg(test)]
mod sample;
mod selector;
mod status;
