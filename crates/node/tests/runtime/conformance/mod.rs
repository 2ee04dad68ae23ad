//! Conformance tests for every runtime.

pub(crate) mod images;
pub(crate) mod lifecycle;
pub(crate) mod network;
pub(crate) mod process;
pub(crate) mod streams;
