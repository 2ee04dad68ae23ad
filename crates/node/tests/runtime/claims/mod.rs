//! What holds of every runtime.

pub(crate) mod images;
pub(crate) mod inside;
pub(crate) mod life;
pub(crate) mod network;
pub(crate) mod streams;
