//! What becomes of nodes that do not do well.
