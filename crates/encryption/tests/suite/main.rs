//! Encryption over every backend, and with a KMS v2 plugin.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod backend;
mod keys;
mod kms;
mod plugin;
