//! Settings of storage backends as arguments of a command line.

use std::{path::PathBuf, time::Duration};

use clap::{
    Arg, ArgAction, ArgMatches,
    builder::{PossibleValue, PossibleValuesParser},
    value_parser,
};
use k3_storage::backend::{Setting, SettingDefault, SettingKind, SettingValue, SettingValues};

/// The argument of a setting.
pub(crate) fn arg(setting: &'static Setting) -> Arg {
    let mut arg = Arg::new(setting.id)
        .long(setting.id.replace('_', "-"))
        .value_name(setting.value_name)
        .help(setting.help)
        .requires_all(setting.requires);
    if let SettingDefault::Value(value) = setting.default {
        arg = arg.default_value(value);
    }
    match setting.kind {
        SettingKind::Text | SettingKind::Secret => arg,
        SettingKind::List => arg.action(ArgAction::Append).value_delimiter(','),
        SettingKind::File => arg.value_parser(value_parser!(PathBuf)),
        SettingKind::Directory => arg.value_parser(some_path),
        SettingKind::Duration => arg.value_parser(crate::duration::parse_positive),
        SettingKind::Number { min } => arg.value_parser(value_parser!(u16).range(i64::from(min)..)),
        SettingKind::Choice(names) => {
            let names = names
                .iter()
                .map(|(name, help)| PossibleValue::new(*name).help(*help));
            arg.value_parser(PossibleValuesParser::new(names))
        }
    }
}

/// The values of settings whose arguments are in the command.
pub(crate) fn values<'s>(
    settings: impl IntoIterator<Item = &'s Setting>,
    matches: &ArgMatches,
) -> SettingValues {
    let mut values = SettingValues::default();
    for setting in settings {
        if let Some(value) = value(setting, matches) {
            values.set(setting, value);
        }
    }
    values
}

fn value(setting: &Setting, matches: &ArgMatches) -> Option<SettingValue> {
    let id = setting.id;
    Some(match setting.kind {
        SettingKind::Text | SettingKind::Secret | SettingKind::Choice(_) => {
            SettingValue::Text(matches.get_one::<String>(id)?.clone())
        }
        SettingKind::List => SettingValue::List(matches.get_many::<String>(id)?.cloned().collect()),
        SettingKind::File | SettingKind::Directory => {
            SettingValue::Path(matches.get_one::<PathBuf>(id)?.clone())
        }
        SettingKind::Duration => SettingValue::Duration(*matches.get_one::<Duration>(id)?),
        SettingKind::Number { .. } => SettingValue::Number(*matches.get_one::<u16>(id)?),
    })
}

fn some_path(text: &str) -> Result<PathBuf, &'static str> {
    if text.is_empty() {
        return Err("must not be empty: it is the path of a directory");
    }
    Ok(text.into())
}
