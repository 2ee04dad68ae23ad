//! Probes: whether containers have started, are alive, and are ready.
