//! Everything together.
