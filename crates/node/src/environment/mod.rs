//! The environment of containers.
