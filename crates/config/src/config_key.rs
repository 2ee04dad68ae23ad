//! A key: a setting of a program.

use std::borrow::Cow;

use clap::{Arg, ArgAction, builder::ValueParser, value_parser};

/// A setting: an argument of the command line that a file and the environment can also set. The argument is the type of the
/// value: its parser, whether it is a list or a switch, its names, help and default.
#[derive(Clone, Debug)]
pub struct ConfigKey {
    name: Cow<'static, str>,
    arg: Arg,
    pub(crate) variables: Vec<String>,
    pub(crate) aliases: Vec<&'static str>,
    flag_aliases: Vec<&'static str>,
    default: Option<&'static str>,
    is_switch: bool,
    list: ListForm,
    is_secret: bool,
    is_listed: bool,
}

/// How a file may write the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListForm {
    /// As one value.
    One,
    /// As one value with commas, or as a list.
    Joined,
}

// --- ConfigKey ---

impl ConfigKey {
    /// A key with a name, with dots between sections, and an argument, which must have a long flag. A trailing `<name>` of the
    /// name is a wildcard: the key stands for all names with that beginning.
    pub fn new(name: impl Into<Cow<'static, str>>, arg: Arg) -> Self {
        let name = name.into();
        let is_switch = matches!(arg.get_action(), ArgAction::SetTrue)
            || arg
                .get_possible_values()
                .iter()
                .map(|value| value.get_name().to_owned())
                .eq(["true", "false"]);
        let arg = complete(&name, arg);
        Self {
            name,
            arg,
            variables: Vec::new(),
            aliases: Vec::new(),
            flag_aliases: Vec::new(),
            default: None,
            is_switch,
            list: ListForm::One,
            is_secret: false,
            is_listed: true,
        }
    }

    /// With a default that the argument does not have: its help mentions it.
    #[must_use]
    pub fn with_implied_default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// With a variable, which overrides the one that is derived from the name.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>) -> Self {
        self.variables.push(name.into());
        self
    }

    /// With a default that the argument and its help show.
    #[must_use]
    pub fn with_default(mut self, default: &'static str) -> Self {
        self.arg = self.arg.default_value(default).hide_default_value(false);
        self
    }

    /// With a parser of values other than the argument's.
    #[must_use]
    pub fn with_parser(mut self, parser: ValueParser) -> Self {
        self.arg = self.arg.value_parser(parser);
        self
    }

    /// With a value that is text with commas, for which a file may write a list.
    #[must_use]
    pub fn joining_lists(mut self) -> Self {
        self.list = ListForm::Joined;
        self
    }

    /// With a value that is never shown.
    #[must_use]
    pub fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// Without a line in help, example and documents.
    #[must_use]
    pub fn unlisted(mut self) -> Self {
        self.is_listed = false;
        self.arg = self.arg.hide(true);
        self
    }

    /// The key with the argument that another command has for it.
    #[must_use]
    pub fn with_arg(&self, arg: Arg) -> Self {
        let mut arg = complete(&self.name, arg);
        for name in &self.aliases {
            arg = with_alias(arg, name);
        }
        for name in &self.flag_aliases {
            arg = with_visible_alias(arg, name);
        }
        Self { arg, ..self.clone() }
    }

    /// The name, with dots between sections.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The argument, with the name of the key as an alias, and with an optional value for a switch.
    pub fn arg(&self) -> &Arg {
        &self.arg
    }

    /// The clap id of the argument.
    pub fn id(&self) -> &str {
        self.arg.get_id().as_str()
    }

    /// The flag, with its dashes.
    pub fn flag(&self) -> String {
        let long = self.arg.get_long().unwrap_or(self.id());
        format!("--{long}")
    }

    /// The environment variables, in order of precedence.
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    /// Whether the value is never shown.
    pub fn is_secret(&self) -> bool {
        self.is_secret
    }

    /// Whether help, example and documents list the key.
    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Whether the value is `true` or `false`.
    pub(crate) fn is_switch(&self) -> bool {
        self.is_switch
    }

    /// Whether the argument takes more than one value.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.arg.get_action(), ArgAction::Append)
    }

    /// Whether a file may contain a list.
    pub(crate) fn takes_list(&self) -> bool {
        self.is_list() || self.list == ListForm::Joined
    }

    /// The part of the name before its wildcard; none without wildcard.
    pub fn prefix(&self) -> Option<&str> {
        self.name.split_once('<').map(|(prefix, _)| prefix)
    }

    /// The values without any source.
    pub fn defaults(&self) -> Vec<String> {
        let of_arg = self.arg.get_default_values();
        if of_arg.is_empty() {
            return self.default.into_iter().map(str::to_owned).collect();
        }
        of_arg
            .iter()
            .map(|value| value.to_string_lossy().into_owned())
            .collect()
    }

    /// Whether a name in a file means the key.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    pub(crate) fn add_alias(&mut self, name: &'static str) {
        self.aliases.push(name);
        self.arg = with_alias(self.arg.clone(), name);
    }

    pub(crate) fn add_flag_alias(&mut self, name: &'static str) {
        self.flag_aliases.push(name);
        self.arg = with_visible_alias(self.arg.clone(), name);
    }

    /// Adds the variable to the help of an argument.
    pub fn document(&self, arg: Arg) -> Arg {
        let shown = self.variables.iter().take(1);
        shown.fold(arg.hide_env_values(true), Arg::env)
    }
}

impl PartialEq for ConfigKey {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ConfigKey {}

/// Adds the name of the key as an alias, as it is and with dashes, and an optional value to switches, so that a flag can
/// override the file.
fn complete(name: &str, mut arg: Arg) -> Arg {
    for flag in [name.replace(['.', '_'], "-"), name.to_owned()] {
        arg = with_alias(arg, &flag);
    }
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        arg = arg
            .action(ArgAction::Set)
            .value_parser(value_parser!(bool))
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_value("false")
            .default_missing_value("true")
            .hide_default_value(true)
            .hide_possible_values(true);
    }
    arg
}

fn with_alias(arg: Arg, flag: &str) -> Arg {
    if is_flag_of(&arg, flag) {
        return arg;
    }
    arg.alias(flag.to_owned())
}

fn with_visible_alias(arg: Arg, flag: &'static str) -> Arg {
    if is_flag_of(&arg, flag) {
        return arg;
    }
    arg.visible_alias(flag)
}

fn is_flag_of(arg: &Arg, flag: &str) -> bool {
    // An argument without other names has none.
    let aliases = arg.get_all_aliases().unwrap_or_default();
    arg.get_long() == Some(flag) || aliases.contains(&flag)
}
