//! Whatever comes in, nothing panics, overflows the stack, or takes more than time in proportion.
//!
//! Each test runs for as many seconds as `K3_FUZZ_SECONDS` says, a second if it says nothing. Inputs are small samples
//! with random changes; one that fails is made as small as it can be, and told. The inputs are the same in every run unless
//! `K3_FUZZ_SEED` says otherwise: with `now` they are new ones, with a number it repeats a run whose
//! end could not be told, as when the stack overflows: each run prints the seed it began with.

mod apply;
mod change;
mod decode;
mod field_paths;
mod patches;
mod protobuf;
mod run;
mod samples;
mod selectors;
