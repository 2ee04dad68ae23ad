//! The generated password of a database.
//!
//! It is generated once per data directory from random bytes, and only the owner of the directory can read it.

use std::path::{Path, PathBuf};

use k3_storage::backend::StorageBackend;

use crate::{command_error::CommandError, random, secret_file};

/// The file with the password.
fn file(data_dir: &Path, backend: &dyn StorageBackend) -> PathBuf {
    data_dir.join(format!("databases/{}.password", backend.name()))
}

/// Reads the generated password, if there is one.
pub(super) fn load(data_dir: &Path, backend: &dyn StorageBackend) -> Result<Option<String>, CommandError> {
    let text = secret_file::read(&file(data_dir, backend)).map_err(|error| unusable(backend, error))?;
    Ok(text.map(|text| text.trim_end().to_owned()))
}

/// Reads the generated password, or generates and stores one.
pub(super) fn load_or_create(data_dir: &Path, backend: &dyn StorageBackend) -> Result<String, CommandError> {
    if let Some(password) = load(data_dir, backend)? {
        return Ok(password);
    }
    let password = random::digits::<24>()?;
    let file = file(data_dir, backend);
    let directory = file.parent().unwrap_or(data_dir);
    secret_file::create_directory(directory)
        .and_then(|()| secret_file::write(&file, &password))
        .map_err(|error| unusable(backend, error))?;
    Ok(password)
}

fn unusable(backend: &dyn StorageBackend, error: secret_file::FileError) -> CommandError {
    CommandError::new(
        "cannot store the password of the database",
        format!(
            "check that this user may write to --data-dir, or set a password with --{}-password-file",
            backend.name()
        ),
    )
    .caused_by(error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use k3_storage::mysql::MysqlBackend;

    use super::*;

    #[test]
    fn generates_a_private_password_once() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(load(directory.path(), &MysqlBackend).unwrap(), None);
        let first = load_or_create(directory.path(), &MysqlBackend).unwrap();
        assert!(first.len() >= 32, "{}", first.len());
        assert_eq!(load_or_create(directory.path(), &MysqlBackend).unwrap(), first);
        let mode = file(directory.path(), &MysqlBackend)
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(load_or_create(other.path(), &MysqlBackend).unwrap(), first);
    }
}
