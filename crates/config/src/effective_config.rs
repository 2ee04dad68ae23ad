//! The effective configuration, with the source of each value.

use std::{collections::BTreeSet, ffi::OsString, fmt};

use crate::{ConfigFile, ConfigKey, ConfigSource, ConfiguredValue, KeyTable};

/// The environment variables of a process.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// Reads a variable.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The names of all.
    pub names: &'a dyn Fn() -> Vec<String>,
}

/// The configured values of a program. All others have their defaults.
#[derive(Clone, Debug, Default)]
pub struct EffectiveConfig {
    /// The path of the configuration file.
    pub file: Option<String>,
    /// In the order of the table, each name once.
    pub configured: Vec<ConfiguredValue>,
    /// What is wrong with values and names.
    pub errors: Vec<String>,
}

/// All errors in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The messages.
    pub errors: Vec<String>,
}

// --- EffectiveConfig ---

impl EffectiveConfig {
    /// Reads all sources. The file is checked against `all` keys, those of the program's other commands included; values are
    /// those of `used` keys. Flags are not checked, since a command line has types: see [`EffectiveConfig::check_flags`].
    pub fn read(
        all: &KeyTable,
        used: &KeyTable,
        file: Option<&ConfigFile>,
        environment: Environment<'_>,
        flags: &[ConfiguredValue],
    ) -> Self {
        let mut errors: Vec<_> = (environment.names)()
            .iter()
            .filter_map(|name| all.unknown_variable_reason(name))
            .collect();
        let in_file = file.map_or_else(Vec::new, |file| file.values(all, &mut errors));
        let mut configured = Vec::new();
        for key in used.keys() {
            let is_of_key = |value: &&ConfiguredValue| value.key == *key;
            let mut values: Vec<_> = flags.iter().filter(is_of_key).cloned().collect();
            if values.is_empty()
                && let Some(value) = by_variable(key, environment)
            {
                errors.extend(value.invalid_reason().map(|why| format!("{value}: {why}")));
                values.push(value);
            }
            let mut names: BTreeSet<_> = values.iter().map(|value| value.name.clone()).collect();
            let of_file = in_file
                .iter()
                .filter(is_of_key)
                .filter(|value| names.insert(value.name.clone()));
            values.extend(of_file.map(|value| ConfiguredValue {
                key: key.clone(),
                ..value.clone()
            }));
            configured.extend(values);
        }
        Self {
            file: file.map(|file| file.path.clone()),
            configured,
            errors,
        }
    }

    /// Checks values of flags, for a command line whose flags have no types.
    #[must_use]
    pub fn check_flags(mut self) -> Self {
        let of_flags = self.configured.iter().filter(|value| value.is_flag());
        let wrong = of_flags
            .filter_map(|value| Some((value.name.clone(), value.to_string(), value.invalid_reason()?)));
        for (name, shown, why) in wrong.collect::<Vec<_>>() {
            self.errors.push(format!("{shown}: {why}"));
            self.configured.retain(|value| value.name != name);
        }
        self
    }

    /// The configuration, if nothing is wrong with it.
    pub fn validated(self) -> Result<Self, ConfigError> {
        if self.errors.is_empty() {
            Ok(self)
        } else {
            Err(ConfigError { errors: self.errors })
        }
    }

    /// The configured value of a key.
    pub fn get(&self, name: &str) -> Option<&ConfiguredValue> {
        self.configured.iter().find(|value| value.name == name)
    }

    /// The value of a key, and its source.
    pub(crate) fn effective_value(&self, key: &ConfigKey) -> (Vec<String>, String) {
        match self.get(key.name()) {
            Some(value) => (value.values.clone(), value.source.to_string()),
            None => (key.defaults(), "default".to_owned()),
        }
    }

    /// Sources of the flags that a message mentions and that are not on the command line, a line each.
    pub fn notes(&self, message: &str) -> String {
        let mut notes = Vec::new();
        for value in self.configured.iter().filter(|value| !value.is_flag()) {
            let names = [value.key.flag(), value.name.clone()];
            if let Some(name) = names.iter().find(|name| mentions(message, name)) {
                notes.push(format!("{name} comes from {value}"));
            }
        }
        notes.join("\n")
    }
}

/// The value of the first variable that is set. An empty variable is unset.
fn by_variable(key: &std::sync::Arc<ConfigKey>, environment: Environment<'_>) -> Option<ConfiguredValue> {
    key.variables().iter().find_map(|name| {
        let text = (environment.variable)(name).filter(|text| !text.is_empty())?;
        let text = text.to_string_lossy();
        let values = if key.is_list() {
            text.split(',').map(|part| part.trim().to_owned()).collect()
        } else {
            vec![text.into_owned()]
        };
        Some(ConfiguredValue {
            key: key.clone(),
            name: key.name().to_owned(),
            written: name.clone(),
            values,
            source: ConfigSource::Variable(name.clone()),
        })
    })
}

/// Whether a message mentions a name as a whole word.
fn mentions(message: &str, name: &str) -> bool {
    message.match_indices(name).any(|(at, _)| {
        let rest = &message[at + name.len()..];
        !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    })
}

// --- ConfigError ---

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.errors.join("\n"))
    }
}

impl std::error::Error for ConfigError {}
