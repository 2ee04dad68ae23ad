//! Data that older versions wrote, opened by this one.
//!
//! `fixtures/<commit>` holds what the version of that commit left behind, made by `fixtures/make.sh`. A fixture is never made
//! again with a newer version: it stands for the data of people who have not upgraded yet.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod expectations;
mod fixture;
mod leaders;
mod newer;
mod old_data;
#[path = "../program/mod.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod program;
