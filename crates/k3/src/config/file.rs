//! The configuration file.

use std::{
    fs,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use k3_config::{ConfigError, ConfigFile};

use super::command_line::CommandEnvironment;
use crate::command_error::CommandError;

/// Environment variable with the path of the file.
const VARIABLE: &str = "CONFIG_PATH";
/// Default paths.
const USUAL: [&str; 2] = [".config.yaml", "configs/config-example.yaml"];

/// The configuration file: the one that is named, or the first that exists. A file in a default path must belong to this user or
/// root and must not be world-writable. Otherwise another user could place one in a shared directory, and its settings (a
/// kubeconfig, a store, a runtime) would be used with the permissions of this user.
///
/// The owner is checked on the open file, because the path can refer to another file a moment later.
pub(super) fn find(
    named: Option<&PathBuf>,
    environment: &CommandEnvironment<'_>,
) -> Result<Option<ConfigFile>, CommandError> {
    let by_variable = || {
        let path = (environment.variable)(VARIABLE).filter(|path| !path.is_empty());
        path.map(PathBuf::from)
    };
    if let Some(path) = named.cloned().or_else(by_variable) {
        let text = fs::read_to_string(&path).map_err(|error| cannot_read(&path, error))?;
        return Ok(Some(config_file(&path, text)));
    }
    let mut usual = USUAL.iter().map(|name| environment.directory.join(name));
    let Some(path) = usual.find(|path| path.exists()) else {
        return Ok(None);
    };
    let unreadable = |error| cannot_read(&path, error);
    let mut file = fs::File::open(&path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let user = rustix::process::geteuid().as_raw();
    check_owner(&path, metadata.uid(), metadata.mode(), user)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    Ok(Some(config_file(&path, text)))
}

fn config_file(path: &Path, text: String) -> ConfigFile {
    ConfigFile {
        path: path.display().to_string(),
        text,
    }
}

fn cannot_read(path: &Path, error: std::io::Error) -> CommandError {
    let advice = "name a file with --config or CONFIG_PATH, or none: then .config.yaml and\n\
                  configs/config-example.yaml are looked for, and there are defaults";
    CommandError::usage(
        format!("cannot read the configuration {}", path.display()),
        advice,
    )
    .caused_by(error)
}

fn check_owner(path: &Path, owner: u32, mode: u32, user: u32) -> Result<(), CommandError> {
    let why = if owner != user && owner != 0 {
        format!("it belongs to the user with id {owner}")
    } else if mode & 0o002 != 0 {
        "every user of this machine may write to it".to_owned()
    } else {
        return Ok(());
    };
    Err(CommandError::usage(
        format!("the configuration {} is not trusted: {why}", path.display()),
        "use it explicitly with --config or CONFIG_PATH, or change to another directory",
    ))
}

/// The usage error for invalid settings.
pub(super) fn invalid_configuration(invalid: &ConfigError) -> CommandError {
    CommandError::usage(
        invalid.errors.join("\nerror: "),
        "`k3 config example` prints all keys with descriptions, and docs/configuration.md lists them",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_files_that_other_users_can_write_unless_named() {
        let path = Path::new(".config.yaml");
        assert!(check_owner(path, 1000, 0o600, 1000).is_ok());
        assert!(check_owner(path, 0, 0o644, 1000).is_ok());
        for (owner, mode, user) in [(1000, 0o600, 0), (1000, 0o600, 1001), (0, 0o666, 0)] {
            let refused = check_owner(path, owner, mode, user).unwrap_err().to_string();
            assert!(
                refused.contains("not trusted") && refused.contains("--config"),
                "{refused}"
            );
        }
    }
}
