//! Requests for certificates, well-formed and not: what is accepted means the same to everybody who reads it.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod encoder;
mod hidden;
mod kinds;
mod mutation;
mod openssl;
