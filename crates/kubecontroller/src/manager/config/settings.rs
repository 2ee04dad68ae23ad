//! Settings: keys, and what they set.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, builder::ValueParser};
use k3_config::{ConfigError, ConfigKey, ConfiguredValue, EffectiveConfig, KeyTable, ValueError};

use super::{
    Config, ControllerSetting,
    keys::{ALIASES, SETTINGS},
};

/// Validates and stores a value. The second argument is the part of the name that matches the wildcard of the key.
type Setter = fn(&mut Config, &str, &str) -> Result<(), ValueError>;

/// A line of the table of settings.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    /// The key in the file, with dots for levels. A trailing `<name>` is a wildcard.
    name: &'static str,
    /// The name of the flag, an alternative to `--` and the key.
    flag: &'static str,
    /// The placeholder for the value in the help; empty for booleans.
    value: &'static str,
    help: &'static str,
    default: &'static str,
    form: Form,
    set: Setter,
}

/// How files and help have a setting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    One,
    List,
    Unlisted,
}

/// The settings of a program.
pub(super) struct Settings {
    pub(super) table: KeyTable,
    setters: BTreeMap<&'static str, Setter>,
    own: Vec<ControllerSetting>,
}

pub(super) const fn setting(
    name: &'static str,
    flag: &'static str,
    value: &'static str,
    help: &'static str,
    set: Setter,
) -> Setting {
    Setting {
        name,
        flag,
        value,
        help,
        default: "",
        form: Form::One,
        set,
    }
}

// --- Setting ---

impl Setting {
    pub(super) const fn default(mut self, default: &'static str) -> Self {
        self.default = default;
        self
    }

    /// A list, which files may also write as text with commas.
    pub(super) const fn lists(mut self) -> Self {
        self.form = Form::List;
        self
    }

    pub(super) const fn unlisted(mut self) -> Self {
        self.form = Form::Unlisted;
        self
    }

    fn key(&self) -> ConfigKey {
        let flag = if self.flag.is_empty() {
            self.name
        } else {
            self.flag
        };
        let arg = Arg::new(self.name).long(flag).help(self.help);
        let arg = if self.value.is_empty() {
            arg.action(ArgAction::SetTrue)
        } else {
            arg.value_name(self.value)
        };
        let set = self.set;
        // A value is valid if it can be set.
        let parser = move |text: &str| set(&mut Config::default(), "name", text).map(|()| text.to_owned());
        let mut key = ConfigKey::new(self.name, arg).with_parser(ValueParser::new(parser));
        if !self.default.is_empty() {
            key = key.with_default(self.default);
        }
        match self.form {
            Form::One => key,
            Form::List => key.joining_lists(),
            Form::Unlisted => key.unlisted(),
        }
    }
}

impl ControllerSetting {
    fn key(&self) -> ConfigKey {
        let arg = Arg::new(self.key).long(self.key).help(self.help);
        let key = ConfigKey::new(self.key, arg).joining_lists();
        if self.default.is_empty() {
            return key;
        }
        key.with_default(self.default)
    }
}

// --- Settings ---

impl Settings {
    /// The settings of the framework, and those that the program declares, which replace the former.
    pub(super) fn new(own: &[ControllerSetting]) -> Self {
        let is_own = |name: &str| own.iter().any(|own| own.key == name);
        let of_framework = || SETTINGS.iter().filter(|setting| !is_own(setting.name));
        let keys = of_framework().map(Setting::key);
        let table = KeyTable::new(keys.chain(own.iter().map(ControllerSetting::key)));
        Settings {
            table: table.with_aliases(ALIASES),
            setters: of_framework()
                .map(|setting| (setting.name, setting.set))
                .collect(),
            own: own.to_vec(),
        }
    }

    /// The configuration with these values, or all that is wrong with it.
    pub(super) fn config(&self, effective: EffectiveConfig) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        for own in &self.own {
            config.own.insert(own.key.to_owned(), own.default.to_owned());
        }
        let mut errors = effective.errors;
        for value in &effective.configured {
            if let Err(why) = self.set(&mut config, value) {
                errors.push(format!("{value}: {why}"));
            }
        }
        errors.extend(super::contradictions(&config, &effective.configured));
        EffectiveConfig {
            errors,
            ..EffectiveConfig::default()
        }
        .validated()?;
        Ok(config)
    }

    fn set(&self, config: &mut Config, value: &ConfiguredValue) -> Result<(), ValueError> {
        if let Some(set) = self.setters.get(value.key.name()) {
            return set(config, value.wildcard(), &value.text());
        }
        config.own.insert(value.name.clone(), value.text());
        Ok(())
    }
}
