//! A file, checked against the keys.

use crate::{ConfigSource, ConfiguredValue, KeyTable, parse_entries};

/// A configuration file that was read.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// Its path, as errors name it.
    pub path: String,
    /// Its content.
    pub text: String,
}

// --- ConfigFile ---

impl ConfigFile {
    /// The values in the file. All that is wrong is added to `errors`.
    pub fn values(&self, table: &KeyTable, errors: &mut Vec<String>) -> Vec<ConfiguredValue> {
        let path = &self.path;
        let entries = match parse_entries(&self.text) {
            Ok(entries) => entries,
            Err(bad) => {
                errors.push(match bad.line {
                    Some(line) => format!("{path}:{line}: {bad}"),
                    None => format!("{path}: {bad}"),
                });
                return Vec::new();
            }
        };
        let mut found: Vec<ConfiguredValue> = Vec::new();
        for entry in entries {
            let location = format!("{path}:{}: {}", entry.line, entry.key);
            let Some(key) = table.find(&entry.key) else {
                errors.push(format!("{location}: {}", table.unknown_key_reason(&entry.key)));
                continue;
            };
            if entry.is_list && !key.takes_list() {
                errors.push(format!(
                    "{location}: is a list, but takes one value; write it without brackets and dashes"
                ));
                continue;
            }
            let name = if key.prefix().is_some() {
                &entry.key
            } else {
                key.name()
            };
            let value = ConfiguredValue {
                key: key.clone(),
                name: name.to_owned(),
                written: entry.key,
                values: entry.values,
                source: ConfigSource::File {
                    path: path.clone(),
                    line: entry.line,
                },
            };
            if is_unset(&value) {
                continue;
            }
            if let Some(why) = value.invalid_reason() {
                errors.push(format!("{value}: {why}"));
            } else if let Some(first) = found.iter().find(|first| first.name == value.name) {
                // An alias. One source must not contradict itself.
                if first.values != value.values {
                    errors.push(format!(
                        "{value}: contradicts {first}, which is the same setting with the value {}",
                        first.redacted()
                    ));
                }
            } else {
                found.push(value);
            }
        }
        found
    }
}

/// An empty value means unset, unless the key has a default.
fn is_unset(value: &ConfiguredValue) -> bool {
    value.values.is_empty() || (value.key.defaults().is_empty() && value.text().is_empty())
}
