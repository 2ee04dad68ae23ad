//! The promises, one topic a file, one promise a function.

mod close;
mod compaction;
mod expiry;
mod import;
mod peers;
mod ranges;
mod reads;
mod restarts;
mod transfer;
mod watches;
mod writers;
mod writes;
