//! Reconcilers as state machines.
