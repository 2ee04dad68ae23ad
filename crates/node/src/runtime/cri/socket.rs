//! The socket of a runtime. Blocks on file I/O.

use std::{fs, io, os::unix::fs::FileTypeExt, path::Path};

/// Why a path is not a socket.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckSocketError {
    #[error(transparent)]
    Metadata(#[from] io::Error),
    #[error("not a socket")]
    NotASocket,
}

/// Checks that the socket exists.
pub(super) fn check(socket: &Path) -> Result<(), CheckSocketError> {
    let file = fs::metadata(socket)?;
    if file.file_type().is_socket() {
        Ok(())
    } else {
        Err(CheckSocketError::NotASocket)
    }
}
