//! Leader election by lease.
