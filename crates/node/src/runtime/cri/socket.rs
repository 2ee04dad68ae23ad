//! The socket of a runtime. Blocks on file I/O.

use std::{fs, os::unix::fs::FileTypeExt, path::Path};

/// Checks that the socket exists. The error is the reason.
pub(super) fn check(socket: &Path) -> Result<(), String> {
    let file = fs::metadata(socket).map_err(|error| error.to_string())?;
    if file.file_type().is_socket() {
        Ok(())
    } else {
        Err("not a socket".to_owned())
    }
}
