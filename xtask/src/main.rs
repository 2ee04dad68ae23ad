//! The project's chores: `cargo xtask check | test | golden | e2e | bench`.

fn main() {}
