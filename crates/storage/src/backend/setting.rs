//! Settings as data: one row is a key of the configuration file, a flag, an environment variable and a line of help.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

/// A setting of a backend.
#[derive(Debug)]
pub struct Setting {
    /// Key in the configuration file, with dots between sections.
    pub key: &'static str,
    /// Name of the flag, with underscores.
    pub id: &'static str,
    /// The type of the value.
    pub kind: SettingKind,
    /// What the value is called in help.
    pub value_name: &'static str,
    /// Help, without period at the end.
    pub help: &'static str,
    /// The default.
    pub default: SettingDefault,
    /// An environment variable beside the one that is derived from the key.
    pub variable: Option<&'static str>,
    /// Ids of the settings that this one needs.
    pub requires: &'static [&'static str],
}

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub enum SettingKind {
    /// A text.
    Text,
    /// A text that is never shown.
    Secret,
    /// Several texts, comma-separated.
    List,
    /// A path of a file.
    File,
    /// A path of a directory.
    Directory,
    /// A duration above zero, as Go writes it.
    Duration,
    /// A number from `min` to 65535.
    Number {
        /// The least value.
        min: u16,
    },
    /// One of these names. Each has a line for help.
    Choice(&'static [(&'static str, &'static str)]),
}

/// The default of a setting.
#[derive(Clone, Copy, Debug)]
pub enum SettingDefault {
    /// None, or one that its help describes.
    Unset,
    /// The value of the flag.
    Value(&'static str),
    /// The value that the backend uses for an unset flag; its help mentions it.
    Implied(&'static str),
}

/// The settings of a backend, and how they exclude each other.
#[derive(Debug)]
pub struct BackendSettings {
    /// In the order of help and of the example configuration.
    pub all: &'static [Setting],
    /// Ids: the first setting contains the second, which overrides that part of it.
    pub parts: &'static [(&'static str, &'static str)],
    /// Ids of alternatives, of which one may be set.
    pub alternatives: &'static [(&'static str, &'static str)],
}

/// A value of a setting.
#[derive(Clone, PartialEq, Eq)]
pub enum SettingValue {
    /// Of [`SettingKind::Text`], [`SettingKind::Secret`] and [`SettingKind::Choice`].
    Text(String),
    /// Of [`SettingKind::List`].
    List(Vec<String>),
    /// Of [`SettingKind::File`] and [`SettingKind::Directory`].
    Path(PathBuf),
    /// Of [`SettingKind::Duration`].
    Duration(Duration),
    /// Of [`SettingKind::Number`].
    Number(u16),
}

/// The values of a backend's settings. Unset ones are absent.
#[derive(Clone, Default)]
pub struct SettingValues(BTreeMap<&'static str, SettingValue>);

// --- Setting ---

impl Setting {
    /// A setting without default.
    pub const fn new(
        key: &'static str,
        id: &'static str,
        kind: SettingKind,
        value_name: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            key,
            id,
            kind,
            value_name,
            help,
            default: SettingDefault::Unset,
            variable: None,
            requires: &[],
        }
    }

    /// With a default that the flag has.
    #[must_use]
    pub const fn with_default(mut self, value: &'static str) -> Self {
        self.default = SettingDefault::Value(value);
        self
    }

    /// With the default of the backend, which the help mentions.
    #[must_use]
    pub const fn with_implied_default(mut self, value: &'static str) -> Self {
        self.default = SettingDefault::Implied(value);
        self
    }

    /// With a second environment variable.
    #[must_use]
    pub const fn with_variable(mut self, name: &'static str) -> Self {
        self.variable = Some(name);
        self
    }

    /// Only together with these settings.
    #[must_use]
    pub const fn requiring(mut self, ids: &'static [&'static str]) -> Self {
        self.requires = ids;
        self
    }
}

// --- SettingValues ---

impl SettingValues {
    /// Sets a value.
    pub fn set(&mut self, setting: &Setting, value: SettingValue) {
        self.0.insert(setting.id, value);
    }

    /// The value of a text, a secret or a choice.
    pub fn text(&self, setting: &Setting) -> Option<&str> {
        match self.0.get(setting.id)? {
            SettingValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The values of a list, none if it is unset.
    pub fn list(&self, setting: &Setting) -> &[String] {
        match self.0.get(setting.id) {
            Some(SettingValue::List(texts)) => texts,
            _ => &[],
        }
    }

    /// The value of a file or directory.
    pub fn path(&self, setting: &Setting) -> Option<&Path> {
        match self.0.get(setting.id)? {
            SettingValue::Path(path) => Some(path),
            _ => None,
        }
    }

    /// The value of a duration.
    pub fn duration(&self, setting: &Setting) -> Option<Duration> {
        match self.0.get(setting.id)? {
            SettingValue::Duration(duration) => Some(*duration),
            _ => None,
        }
    }

    /// The value of a number.
    pub fn number(&self, setting: &Setting) -> Option<u16> {
        match self.0.get(setting.id)? {
            SettingValue::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// Shows which settings have values. A value may be a secret.
impl fmt::Debug for SettingValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
