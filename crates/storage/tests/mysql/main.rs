//! What the mysql store promises beyond what every store does, against real MariaDB servers.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]
#![expect(clippy::disallowed_methods, reason = "a test's tasks end with its runtime")]

mod compaction;
mod encryption;
mod exactness;
mod expiry;
mod faults;
mod following;
mod import;
mod limits;
mod opening;
mod outcomes;
mod proxy;
mod revisions;
mod server;
