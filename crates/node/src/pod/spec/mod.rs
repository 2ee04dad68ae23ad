//! What the runtime is asked for, made of a pod's spec. Pure.
