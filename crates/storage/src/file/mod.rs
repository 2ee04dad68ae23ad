//! The embedded store: one directory, one process, every acknowledged write on disk.
//!
//! Guarantees: a commit is acknowledged after the sync that made it durable; waiting writes share one sync, and a single
//! write waits for no other; readers never wait for the writer; checksums are verified on every read.
//!
//! Modules from the bottom: [`directory`] is the disk, `engine` the database file, `record` the format of a commit, `tables`
//! the layout of the file, `journal` what the file does not have yet, `index` the index in memory; `group`, `compaction`,
//! `shrink`, `import` and `migration` are the operations on the file; `writer` is the thread that runs them; `store` implements the trait.

mod backend;
mod compaction;
pub mod directory;
mod engine;
mod group;
mod import;
mod index;
mod journal;
mod mark;
mod migration;
mod options;
mod record;
mod shrink;
mod store;
mod tables;
mod writer;

pub use self::{
    backend::FileBackend,
    engine::is_panic_handled,
    options::{Durability, FileOptions, RepairMode},
    store::FileStore,
};
