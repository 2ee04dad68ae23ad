//! Objects of a kind, kept up to date in memory.
