//! What managers promise.
