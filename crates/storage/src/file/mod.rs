//! The embedded store: one directory, one process, every acknowledged write on disk.
//!
//! Promises: a commit is answered after the sync that made it durable; all writes that wait share one
//! sync, and a lone one waits for no other; readers never wait for the writer; what is read is checked
//! against the checksum written with it.
//!
//! From the bottom: [`directory`] is the disk, `engine` the database file on it, `record` a commit as
//! bytes, `tables` where items stand in the file, `index` what
//! is kept in memory of it; `group`, `compaction`, `shrink`, `import` and
//! `migration` are
//! what can be done to it; `writer` is the one thread that does them; `store` is the door.

mod compaction;
pub mod directory;
mod engine;
mod group;
mod import;
mod index;
mod mark;
mod migration;
mod options;
mod record;
mod shrink;
mod store;
mod tables;
mod writer;

pub use self::{
    engine::is_panic_handled,
    options::{Durability, FileOptions, RepairMode},
    store::FileStore,
};
