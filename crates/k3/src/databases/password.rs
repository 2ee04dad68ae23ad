//! The generated password of a database.
//!
//! It is generated once per data directory from random bytes, and only the owner of the directory can read it.

use std::path::{Path, PathBuf};

use crate::{command_error::CommandError, random, secret_file};

/// The file with the password.
pub(super) fn file(data_dir: &Path) -> PathBuf {
    data_dir.join("databases/mysql.password")
}

/// Reads the generated password, if there is one.
pub(super) fn load(data_dir: &Path) -> Result<Option<String>, CommandError> {
    let text = secret_file::read(&file(data_dir)).map_err(unusable)?;
    Ok(text.map(|text| text.trim_end().to_owned()))
}

/// Reads the generated password, or generates and stores one.
pub(super) fn load_or_create(data_dir: &Path) -> Result<String, CommandError> {
    if let Some(password) = load(data_dir)? {
        return Ok(password);
    }
    let password = random::digits::<24>()?;
    let file = file(data_dir);
    let directory = file.parent().unwrap_or(data_dir);
    secret_file::create_directory(directory).map_err(unusable)?;
    secret_file::write(&file, &password).map_err(unusable)?;
    Ok(password)
}

fn unusable(error: secret_file::FileError) -> CommandError {
    CommandError::new(
        "cannot store the password of the database",
        "check that this user may write to --data-dir, or set a password with --mysql-password-file",
    )
    .caused_by(error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn generates_a_private_password_once() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(load(directory.path()).unwrap(), None);
        let first = load_or_create(directory.path()).unwrap();
        assert!(first.len() >= 32, "{}", first.len());
        assert_eq!(load_or_create(directory.path()).unwrap(), first);
        let mode = file(directory.path()).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(load_or_create(other.path()).unwrap(), first);
    }
}
