//! For the tests of reconcilers: an API in memory, with faults.
