//! Volumes: what is mounted into containers, and kept up to date.
