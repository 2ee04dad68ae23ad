//! Keys as flags of a command line.

use std::ffi::OsString;

use clap::{Arg, ArgMatches, parser::ValueSource, value_parser};

use crate::{ConfigKey, ConfigSource, ConfiguredValue, KeyTable};

/// The values that are on a command line, not checked.
pub fn flag_values(table: &KeyTable, matches: &ArgMatches) -> Vec<ConfiguredValue> {
    let ids = matches.ids().map(clap::Id::as_str);
    let on_line = ids.filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine));
    let found = on_line.filter_map(|id| {
        let by_wildcard = || table.find(id).filter(|key| key.prefix().is_some());
        let key = table.find_by_id(id).or_else(by_wildcard)?;
        let raw = matches.try_get_raw(id).ok().flatten()?;
        let is_wildcard = key.prefix().is_some();
        let flag = if is_wildcard {
            format!("--{id}")
        } else {
            key.flag()
        };
        Some(ConfiguredValue {
            key: key.clone(),
            name: if is_wildcard { id } else { key.name() }.to_owned(),
            written: flag.clone(),
            values: raw.map(|value| value.to_string_lossy().into_owned()).collect(),
            source: ConfigSource::Flag(flag),
        })
    });
    found.collect()
}

// --- KeyTable ---

impl KeyTable {
    /// The flags of a program whose command line is this table. They take any text, so that errors are those of the
    /// configuration; see [`EffectiveConfig::check_flags`](crate::EffectiveConfig::check_flags). The flag of a key with a
    /// wildcard is only in the help; `line` is searched for those that are meant.
    pub fn untyped_flags(&self, line: &[OsString]) -> Vec<Arg> {
        let untyped = |key: &ConfigKey| key.document(key.arg().clone().value_parser(value_parser!(String)));
        let flags = self.keys().iter().map(|key| untyped(key));
        let wildcards = self.wildcard_names(line);
        let flags = flags.chain(
            wildcards
                .into_iter()
                .map(|name| Arg::new(name.clone()).long(name).hide(true)),
        );
        flags.collect()
    }

    /// The flags on a command line whose name matches a wildcard.
    fn wildcard_names(&self, line: &[OsString]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let texts = line.iter().filter_map(|argument| argument.to_str());
        for argument in texts.take_while(|argument| *argument != "--") {
            let Some(flag) = argument.strip_prefix("--") else {
                continue;
            };
            let name = flag.split_once('=').map_or(flag, |(name, _)| name);
            let is_wildcard = self.find(name).is_some_and(|key| key.prefix().is_some());
            if is_wildcard && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        names
    }
}
