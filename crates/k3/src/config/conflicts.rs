//! Values that are fine one by one and make no sense together.

use clap::Command;

use super::{
    configured_value::{ConfiguredValue, Origin},
    file,
    keys::Key,
    settings::defaults,
};
use crate::failure::Failure;

/// The first says all that the second does. Who gives the first means it, unless the second was configured by somebody more
/// important: that part is then another one.
const WHOLE_AND_PART: &[(&str, &str)] = &[
    ("mysql_url", "mysql_host"),
    ("mysql_url", "mysql_port"),
    ("mysql_url", "mysql_user"),
    ("mysql_url", "mysql_database"),
];

/// Two ways to say the same: the more important one counts.
const EITHER: &[(&str, &str)] = &[
    ("etcd_password", "etcd_password_file"),
    ("mysql_password", "mysql_password_file"),
    ("server", "kubeconfig"),
    ("token", "kubeconfig"),
];

/// Says which of several stores.
const STORE: &str = "storage.type";

/// Takes out what does not count beside something more important, and refuses what cannot be meant.
pub(super) fn resolve(configured: &mut Vec<ConfiguredValue>, command: &Command) -> Result<(), Failure> {
    let mut errors = Vec::new();
    for (whole, part) in WHOLE_AND_PART {
        let Some((whole, part)) = pair(configured, whole, part) else {
            continue;
        };
        if whole.rank() == part.rank() && !is_default(&part, command) {
            errors.push(format!("{part}: {whole} says it too; use one of them"));
        } else if whole.rank() >= part.rank() {
            configured.retain(|set| set.key != part.key);
        }
    }
    for (one, other) in EITHER {
        let Some((one, other)) = pair(configured, one, other) else {
            continue;
        };
        if one.rank() == other.rank() {
            errors.push(format!("{other}: {one} says it too; use one of them"));
        } else {
            retain_stronger(configured, &one, &other);
        }
    }
    // Where a server is that is asked something: by the file that is for it, or by the directory of one on this machine. Both on
    // the line is for the command to refuse; what runs long keeps things of its own in the directory.
    let runs_long = command.get_arguments().any(|arg| arg.get_id() == "log_level");
    if let Some((file, directory)) = pair(configured, "kubeconfig", "data_dir").filter(|_| !runs_long)
        && (file.origin != Origin::Flag || directory.origin != Origin::Flag)
    {
        retain_stronger(configured, &directory, &file);
    }
    if !errors.is_empty() {
        return Err(file::invalid_configuration(&errors));
    }
    refuse_flags_of_other_stores(configured, command)
}

fn pair(
    configured: &[ConfiguredValue],
    one: &str,
    other: &str,
) -> Option<(ConfiguredValue, ConfiguredValue)> {
    let find = |id: &str| configured.iter().find(|set| set.key.arg == id).cloned();
    find(one).zip(find(other))
}

/// Takes out the weaker of two; the first if none is.
fn retain_stronger(configured: &mut Vec<ConfiguredValue>, one: &ConfiguredValue, other: &ConfiguredValue) {
    let weaker = if one.rank() <= other.rank() { one } else { other };
    configured.retain(|set| set.key != weaker.key);
}

fn is_default(configured: &ConfiguredValue, command: &Command) -> bool {
    let mut args = command.get_arguments();
    let arg = args.find(|arg| arg.get_id() == configured.key.arg);
    arg.is_some_and(|arg| defaults(configured.key, arg) == configured.values)
}

/// A flag that does nothing is a mistake: whoever writes `--etcd-servers` does not want a file. What a file of settings says
/// of other stores is for the day when the type is another one.
fn refuse_flags_of_other_stores(configured: &[ConfiguredValue], command: &Command) -> Result<(), Failure> {
    let key = Key::by_name(STORE).expect("the table has it");
    let Some(arg) = command.get_arguments().find(|arg| arg.get_id() == key.arg) else {
        return Ok(());
    };
    let chosen = configured.iter().find(|set| set.key == key);
    let store = chosen.map_or_else(|| defaults(key, arg).concat(), ConfiguredValue::text);
    for set in configured.iter().filter(|set| set.origin == Origin::Flag) {
        let inside = set.key.name.strip_prefix("storage.");
        let Some((owner, _)) = inside.and_then(|rest| rest.split_once('.')) else {
            continue;
        };
        if owner != store {
            let flag = &set.flag;
            let chosen = chosen.filter(|chosen| chosen.origin != Origin::Flag);
            let by = chosen.map(|chosen| format!(" ({chosen})")).unwrap_or_default();
            return Err(Failure::usage(
                format!("{flag} is for --storage {owner}, but the store is {store}{by}"),
                format!("add --storage {owner}, or leave out {flag}"),
            ));
        }
    }
    Ok(())
}
