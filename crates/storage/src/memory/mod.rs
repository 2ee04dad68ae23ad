//! The store that lives as long as the process: for tests, and the model the others are compared with.

mod backend;
mod state;
mod store;

pub use self::{
    backend::{MemoryBackend, MemoryOptions},
    store::MemoryStore,
};
