//! The effective configuration of a command, with the source of each value.

use std::path::PathBuf;

use clap::{Arg, Command};
use serde_json::{Value, json};

use super::{
    configured_value::{ConfigSource, ConfiguredValue},
    example::SectionCursor,
    keys::ConfigKey,
    value,
};

/// The configured values of a command. All others have their defaults.
#[derive(Debug, Default)]
pub(crate) struct EffectiveConfig {
    /// The configuration file.
    pub(super) file: Option<PathBuf>,
    /// In the order of the table, each key once.
    pub(super) configured: Vec<ConfiguredValue>,
}

// --- EffectiveConfig ---

impl EffectiveConfig {
    /// Arguments for values that are not set by flags.
    pub(super) fn arguments(&self, command: &Command) -> Vec<String> {
        let unsaid = self
            .configured
            .iter()
            .filter(|configured| configured.origin != ConfigSource::Flag);
        let arguments = unsaid.filter_map(|configured| {
            let arg = command
                .get_arguments()
                .find(|arg| arg.get_id() == configured.key.arg)?;
            Some(value::to_arguments(arg, &configured.values))
        });
        arguments.flatten().collect()
    }

    /// Sources of the flags that a message mentions and that are not on the command line, a line each.
    pub(crate) fn notes(&self, message: &str) -> String {
        let mut notes = Vec::new();
        for configured in &self.configured {
            let names = [configured.flag.as_str(), configured.key.name];
            let name = names.into_iter().find(|name| mentions(message, name));
            if let (Some(name), false) = (name, configured.origin == ConfigSource::Flag) {
                notes.push(format!("{name} comes from {configured}"));
            }
        }
        notes.join("\n")
    }

    /// The effective configuration as YAML, with the source of each value.
    pub(crate) fn yaml(&self, args: &[(&'static ConfigKey, Arg)]) -> String {
        let mut cursor = SectionCursor::default();
        let mut lines = Vec::new();
        for (key, arg) in args {
            let (values, origin) = self.effective_value(key, arg);
            let shown = if key.is_secret && !values.concat().is_empty() {
                "'***'".to_owned()
            } else {
                value::yaml(arg, &values)
            };
            let name = cursor.enter(key, |section| lines.push((section, None)));
            lines.push((format!("{name}: {shown}"), Some(origin)));
        }
        let widths = lines.iter().map(|(line, _)| line.len());
        let width = widths.filter(|width| *width <= 60).max().unwrap_or_default();
        let file = self.file.as_ref().map(|path| path.display().to_string());
        let mut text = vec![format!("# file: {}", file.as_deref().unwrap_or("none"))];
        text.extend(lines.into_iter().map(|(line, origin)| match origin {
            Some(origin) => format!("{line:width$}  # {origin}"),
            None => line,
        }));
        text.join("\n")
    }

    /// The same as JSON.
    pub(crate) fn json(&self, args: &[(&'static ConfigKey, Arg)]) -> Value {
        let settings: Vec<_> = args
            .iter()
            .map(|(key, arg)| {
                let (values, origin) = self.effective_value(key, arg);
                let value = if key.is_secret && !values.concat().is_empty() {
                    json!("***")
                } else {
                    value::json(arg, &values)
                };
                json!({"key": key.name, "value": value, "origin": origin})
            })
            .collect();
        json!({"file": self.file, "settings": settings})
    }

    /// The value of a key, and its source.
    fn effective_value(&self, key: &'static ConfigKey, arg: &Arg) -> (Vec<String>, String) {
        match self.configured.iter().find(|configured| configured.key == key) {
            Some(configured) if configured.origin == ConfigSource::Flag => {
                (configured.values.clone(), format!("flag {}", configured.flag))
            }
            Some(configured) => (configured.values.clone(), configured.origin.to_string()),
            None => (defaults(key, arg), "default".to_owned()),
        }
    }
}

/// Whether a message mentions a name as a whole word.
fn mentions(message: &str, name: &str) -> bool {
    message.match_indices(name).any(|(at, _)| {
        let rest = &message[at + name.len()..];
        !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    })
}

/// The default of a key.
pub(super) fn defaults(key: &ConfigKey, arg: &Arg) -> Vec<String> {
    let of_arg = arg.get_default_values();
    if of_arg.is_empty() {
        let own = Some(key.default.to_owned());
        return own.filter(|value| !value.is_empty()).into_iter().collect();
    }
    let texts = of_arg.iter().map(|value| value.to_string_lossy().into_owned());
    texts.collect()
}
