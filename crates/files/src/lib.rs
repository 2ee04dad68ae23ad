//! Files and directories that only their owner can access: files have mode 0600, directories 0700.
//!
//! Promises: the modes do not depend on the umask, not even on 0777. A file or directory of k3 whose mode is wider is repaired,
//! with a warning in the log; one that cannot be repaired, because it belongs to another user, is refused. The mode of a
//! directory that k3 did not create for itself is never changed.

mod directory;
mod file;
mod rotating_file;

pub use self::{
    directory::{Contents, create_directory, protect_directory},
    file::{open, protect_file},
    rotating_file::{LogBackups, NumberedBackups, RotatingFile},
};
