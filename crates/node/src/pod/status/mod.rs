//! The status of a pod, computed of what is there. Pure.
