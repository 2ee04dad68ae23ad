//! Changes become keys, keys become reconciles.
