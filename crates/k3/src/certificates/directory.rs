//! The directory of certificates and keys.

use std::{ffi::OsStr, path::Path};

use super::{
    rotation::GENERATION,
    server_certificates::{ADMIN, KUBELET_CLIENT, LOCK, SERVER},
    shared_keys::AGREED,
};
use crate::secret_file::{self, FileError};

/// Creates the directory, or removes the permissions of other users from one that contains only these files.
pub(super) fn protect_tls_directory(path: &Path) -> Result<(), FileError> {
    secret_file::protect_directory(path, is_tls_file)
}

/// Whether a server creates a file with this name, including temporary files.
fn is_tls_file(name: &OsStr) -> bool {
    const STEMS: [&str; 7] = [
        "ca",
        "ca-next",
        SERVER,
        ADMIN,
        KUBELET_CLIENT,
        "service-account",
        "service-account-old",
    ];
    let Some(name) = name.to_str() else {
        return false;
    };
    let is_being_written = name.starts_with('.') && name.strip_suffix(".new").is_some();
    if is_being_written || [AGREED, GENERATION, LOCK].contains(&name) {
        return true;
    }
    let is_stem = |stem| STEMS.contains(&stem);
    [".crt", ".key", ".pub"]
        .iter()
        .any(|ending| name.strip_suffix(ending).is_some_and(is_stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_own_files_from_files_of_other_programs() {
        for own in [
            "ca.crt",
            "ca-next.key",
            "service-account-old.pub",
            ".lock",
            "agreed",
        ] {
            assert!(is_tls_file(OsStr::new(own)), "{own}");
        }
        for other in ["nginx.key", "server.pem", "ca", "private"] {
            assert!(!is_tls_file(OsStr::new(other)), "{other}");
        }
    }
}
