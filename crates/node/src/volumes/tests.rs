//! Volumes of whole pods, on a real disk, with real mounts.
