//! `cargo xtask golden`: recorded upstream requests, played against k3.

mod play;
mod score;
mod server;

pub(crate) use self::play::{GoldenOptions, count, run};
