//! Conflicts between values that are valid on their own.

use clap::Command;
use k3_config::{ConfigError, ConfiguredValue, KeyTable};
use k3_storage::backend::BACKENDS;

use super::file;
use crate::command_error::CommandError;

/// Alternatives: the one from the source of higher precedence wins.
const ALTERNATIVES: &[(&str, &str)] = &[("server", "kubeconfig"), ("token", "kubeconfig")];

const STORE: &str = "storage.type";

/// Removes overridden values, and rejects conflicts.
pub(super) fn resolve(
    configured: &mut Vec<ConfiguredValue>,
    table: &KeyTable,
    command: &Command,
) -> Result<(), CommandError> {
    let mut errors = Vec::new();
    let of_backends = || BACKENDS.iter().map(|backend| backend.settings());
    // The whole wins, unless the part comes from a source of higher precedence.
    for (whole, part) in of_backends().flat_map(|settings| settings.parts) {
        let Some((whole, part)) = pair(configured, whole, part) else {
            continue;
        };
        if whole.rank() == part.rank() && part.key.defaults() != part.values {
            errors.push(format!("{part}: conflicts with {whole}; use one of them"));
        } else if whole.rank() >= part.rank() {
            configured.retain(|set| set.key != part.key);
        }
    }
    let alternatives = of_backends().flat_map(|settings| settings.alternatives);
    for (one, other) in alternatives.chain(ALTERNATIVES) {
        let Some((one, other)) = pair(configured, one, other) else {
            continue;
        };
        if one.rank() == other.rank() {
            errors.push(format!("{other}: conflicts with {one}; use one of them"));
        } else {
            retain_stronger(configured, &one, &other);
        }
    }
    // Client commands find the server by a kubeconfig or by a data directory. Both as flags are rejected by clap; long-running
    // commands need the data directory for themselves.
    let runs_long = command.get_arguments().any(|arg| arg.get_id() == "log_level");
    if let Some((file, directory)) = pair(configured, "kubeconfig", "data_dir").filter(|_| !runs_long)
        && !(file.is_flag() && directory.is_flag())
    {
        retain_stronger(configured, &directory, &file);
    }
    if !errors.is_empty() {
        return Err(file::invalid_configuration(&ConfigError { errors }));
    }
    refuse_flags_of_other_stores(configured, table)
}

fn pair(
    configured: &[ConfiguredValue],
    one: &str,
    other: &str,
) -> Option<(ConfiguredValue, ConfiguredValue)> {
    let find = |id: &str| configured.iter().find(|set| set.key.id() == id).cloned();
    find(one).zip(find(other))
}

/// Removes the value of lower precedence; the first if they are equal.
fn retain_stronger(configured: &mut Vec<ConfiguredValue>, one: &ConfiguredValue, other: &ConfiguredValue) {
    let weaker = if one.rank() <= other.rank() { one } else { other };
    configured.retain(|set| set.key != weaker.key);
}

/// Rejects flags of stores that are not selected: `--etcd-servers` without `--storage etcd` would be ignored. A configuration
/// file may contain settings of all stores.
fn refuse_flags_of_other_stores(
    configured: &[ConfiguredValue],
    table: &KeyTable,
) -> Result<(), CommandError> {
    let Some(key) = table.find(STORE) else {
        return Ok(());
    };
    let chosen = configured.iter().find(|set| set.key == *key);
    let store = chosen.map_or_else(|| key.defaults().concat(), ConfiguredValue::text);
    for set in configured.iter().filter(|set| set.is_flag()) {
        let name = set.key.name().strip_prefix("storage.");
        let Some((owner, _)) = name.and_then(|rest| rest.split_once('.')) else {
            continue;
        };
        if owner != store {
            let flag = set.key.flag();
            let chosen = chosen.filter(|chosen| !chosen.is_flag());
            let by = chosen.map_or_else(String::new, |chosen| format!(" ({chosen})"));
            return Err(CommandError::usage(
                format!("{flag} is for --storage {owner}, but the store is {store}{by}"),
                format!("add --storage {owner}, or leave out {flag}"),
            ));
        }
    }
    Ok(())
}
