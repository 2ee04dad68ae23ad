//! The configuration file.

use std::{
    fs,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use clap::Arg;
use kubecontroller::manager::config::{closest_match, parse_entries};

use super::{
    command_line::CommandEnvironment,
    configured_value::{ConfigSource, ConfiguredValue},
    keys::{ConfigKey, KEYS},
    value,
};
use crate::command_error::CommandError;

/// Environment variable with the path of the file.
const VARIABLE: &str = "CONFIG_PATH";
/// Default paths.
const USUAL: [&str; 2] = [".config.yaml", "configs/config-example.yaml"];

/// A configuration file that was read.
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    text: String,
}

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
        return Ok(Some(ConfigFile { path, text }));
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
    Ok(Some(ConfigFile { path, text }))
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

/// Parses a file. `args` are the arguments of its keys.
pub(super) fn read(
    file: &ConfigFile,
    args: &[(&'static ConfigKey, Arg)],
) -> Result<Vec<ConfiguredValue>, CommandError> {
    checked(&file.path.display().to_string(), &file.text, args)
        .map_err(|errors| invalid_configuration(&errors))
}

/// The usage error for invalid settings.
pub(super) fn invalid_configuration(errors: &[String]) -> CommandError {
    CommandError::usage(
        errors.join("\nerror: "),
        "`k3 config example` prints all keys with descriptions, and docs/configuration.md lists them",
    )
}

/// Parses the text of a file, or returns all errors in it.
pub(super) fn checked(
    path: &str,
    text: &str,
    args: &[(&'static ConfigKey, Arg)],
) -> Result<Vec<ConfiguredValue>, Vec<String>> {
    let entries = parse_entries(text).map_err(|bad| {
        vec![match bad.line {
            Some(line) => format!("{path}:{line}: {}", bad.why),
            None => format!("{path}: {}", bad.why),
        }]
    })?;
    let mut configured = Vec::new();
    let mut errors = Vec::new();
    for entry in entries {
        let Some((key, arg)) = args.iter().find(|(key, _)| key.name == entry.key) else {
            let why = unknown_key_reason(&entry.key);
            errors.push(format!("{path}:{}: {}: {why}", entry.line, entry.key));
            continue;
        };
        if entry.is_list && !value::takes_list(arg) {
            let location = format!("{path}:{}: {}", entry.line, entry.key);
            errors.push(format!(
                "{location}: is a list, but takes one value; write it without brackets and dashes"
            ));
            continue;
        }
        let set = ConfiguredValue {
            key,
            flag: value::flag(arg),
            values: entry.values,
            origin: ConfigSource::File {
                path: path.to_owned(),
                line: entry.line,
            },
        };
        if is_unset(&set, arg) {
            continue;
        }
        match value::check_value(arg, &set) {
            Some(why) => errors.push(format!("{set}: {why}")),
            None => configured.push(set),
        }
    }
    if errors.is_empty() {
        Ok(configured)
    } else {
        Err(errors)
    }
}

/// An empty value means unset, unless the key has a default.
fn is_unset(configured: &ConfiguredValue, arg: &Arg) -> bool {
    let has_default = !configured.key.default.is_empty() || !arg.get_default_values().is_empty();
    configured.values.is_empty() || (!has_default && configured.text().is_empty())
}

/// Why a key is unknown, with a suggestion.
fn unknown_key_reason(name: &str) -> String {
    let section = format!("{name}.");
    let keys: Vec<_> = KEYS
        .iter()
        .filter_map(|key| key.name.strip_prefix(&section))
        .collect();
    if !keys.is_empty() {
        return format!("is a section: it holds {}", keys.join(", "));
    }
    if let Some(key) = KEYS.iter().find(|key| {
        name.strip_prefix(key.name)
            .is_some_and(|rest| rest.starts_with('.'))
    }) {
        return format!("no such key: {} is a value and holds no keys", key.name);
    }
    let last = name.rsplit('.').next().unwrap_or(name);
    let meant = closest_match(name, KEYS.iter().map(|key| key.name)).or_else(|| {
        // Only the section is wrong.
        let mut alike = KEYS.iter().filter(|key| key.path().1 == last);
        alike
            .next()
            .map(|key| key.name)
            .filter(|_| alike.next().is_none())
    });
    match meant {
        Some(meant) => format!("no such key; did you mean {meant}?"),
        None => "no such key".to_owned(),
    }
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
