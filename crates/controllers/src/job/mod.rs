//! Runs the pods of jobs until the work is done, and counts each of them once.

mod backoff;
mod indexes;
mod look;
mod making;
mod plan;
mod pods;
mod policy;
mod track;

#[cfg(test)]
mod tests;
