//! No input panics, overflows the stack, or takes more than proportional time.
//!
//! Each test runs for `K3_FUZZ_SECONDS` seconds (default 1). Inputs are small samples with random changes; a failing one is
//! minimized and printed. The inputs are the same in every run unless `K3_FUZZ_SEED` is set: `now` gives new ones, a number
//! repeats a run that could not be reported, as when the stack overflows. Each run prints its seed.

mod apply;
mod change;
mod decode;
mod field_paths;
mod patches;
mod protobuf;
mod run;
mod samples;
mod selectors;
