//! What the etcd store promises beyond what all stores do: against real etcd processes that are
//! killed, paused, filled up, protected, and used by others.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod faults;
mod gateway;
mod imports;
mod layout;
mod leases;
mod proxy;
mod security;
mod support;
mod watches;
