//! Controllers together: configuration, start, health, stop.
