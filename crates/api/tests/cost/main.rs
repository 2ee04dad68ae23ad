//! What requests cost: at most n log n in their bytes, and answers of bounded size.
//!
//! Every list and every map of every kind is filled with entries, and everything that runs on a request runs on it. The
//! time that the thread computes is compared for two sizes, so that a busy machine does not matter; only what grows like
//! the square of its input fails.

mod clock;
mod custom;
mod kinds;
mod objects;
mod patches;
mod records;
