//! Keeps as many pods as a replica set asks for.

mod status;
