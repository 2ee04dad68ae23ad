//! Which runtime is on this machine.
