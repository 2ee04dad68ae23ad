//! Settings as command line flags.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use super::{
    Config, ConfigError, ConfigValue, ControllerSetting, ValueSource, file,
    keys::{KEYS, Setting},
};

/// What a command line requests.
#[derive(Debug)]
pub(in crate::manager) enum CommandLine {
    /// Run the program.
    Run(Box<Config>),
    /// List the reconcilers of the program.
    List,
    /// Print the CRDs of the program.
    PrintCrds,
}

/// Why a command line is rejected.
#[derive(Debug, thiserror::Error)]
pub(in crate::manager) enum CommandLineError {
    /// A usage error, or a request for help.
    #[error("{0}")]
    Line(#[from] clap::Error),
    /// The configuration file cannot be read.
    #[error("{path}: {error}")]
    File {
        /// The path of the file.
        path: String,
        /// The cause.
        error: std::io::Error,
    },
    /// A setting is invalid.
    #[error("{0}")]
    Config(#[from] ConfigError),
}

/// Parses a command line, whose first argument is the program name.
pub(in crate::manager) fn read(
    program: &'static str,
    about: &str,
    own: &[ControllerSetting],
    args: Vec<OsString>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<CommandLine, CommandLineError> {
    let wildcard_keys = wildcard_keys(&args);
    let matches = command(program, about, own, &wildcard_keys).try_get_matches_from(args)?;
    let mut given = Vec::new();
    if let Some(path) = matches.get_one::<String>("config") {
        let text = std::fs::read_to_string(path).map_err(|error| CommandLineError::File {
            path: path.clone(),
            error,
        })?;
        given = file::read(path, &text)?;
    }
    for setting in KEYS {
        let Some(name) = setting.env else { continue };
        if let Some(value) = env(name).filter(|value| !value.is_empty()) {
            let key = setting.key.to_owned();
            let source = ValueSource::Env(name);
            given.push(ConfigValue { key, value, source });
        }
    }
    let keys = KEYS
        .iter()
        .filter(|setting| setting.key_prefix().is_none())
        .map(|setting| setting.key);
    let keys = keys
        .chain(own.iter().map(|own| own.key))
        .chain(wildcard_keys.iter().map(String::as_str));
    for key in keys {
        if let Some(value) = matches.get_one::<String>(key) {
            let flag = KEYS
                .iter()
                .find(|setting| setting.key == key)
                .map_or(key, |setting| setting.flag_name());
            let source = ValueSource::Flag(format!("--{flag}"));
            let key = key.to_owned();
            let value = value.clone();
            given.push(ConfigValue { key, value, source });
        }
    }
    if let Some(value) = matches.get_one::<String>("v") {
        let key = "log.level".to_owned();
        let value = value.clone();
        let source = ValueSource::Flag("-v".to_owned());
        given.push(ConfigValue { key, value, source });
    }
    let config = Config::from_values(&given, own)?;
    if matches.get_flag("list") {
        return Ok(CommandLine::List);
    }
    if matches.get_flag("print-crds") {
        return Ok(CommandLine::PrintCrds);
    }
    Ok(CommandLine::Run(Box::new(config)))
}

impl Setting {
    /// The name of the flag in the help.
    fn flag_name(&self) -> &'static str {
        if self.flag.is_empty() { self.key } else { self.flag }
    }
}

/// The flags on the command line whose key matches a wildcard, e.g. `--resource-filter.pods`.
fn wildcard_keys(args: &[OsString]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for arg in args
        .iter()
        .filter_map(|arg| arg.to_str())
        .take_while(|arg| *arg != "--")
    {
        let Some(flag) = arg.strip_prefix("--") else {
            continue;
        };
        let key = flag.split_once('=').map_or(flag, |(key, _)| key);
        let has_wildcard = Setting::find(key).is_some_and(|(setting, _)| setting.key_prefix().is_some());
        if has_wildcard && !keys.iter().any(|known| known == key) {
            keys.push(key.to_owned());
        }
    }
    keys
}

fn command(
    program: &'static str,
    about: &str,
    own: &[ControllerSetting],
    wildcard_keys: &[String],
) -> Command {
    let config = Arg::new("config").short('c').long("config").value_name("FILE");
    let list = Arg::new("list").long("list").action(ArgAction::SetTrue);
    let crds = Arg::new("print-crds")
        .long("print-crds")
        .action(ArgAction::SetTrue);
    let v = Arg::new("v")
        .short('v')
        .value_name("LEVEL")
        .num_args(0..=1)
        .default_missing_value("4");
    let mut command = Command::new(program)
        .about(about.to_owned())
        .version(env!("CARGO_PKG_VERSION"))
        .arg(config.help("Path to a YAML configuration file; flags override it"))
        .arg(list.help("List the reconcilers of this program and exit"))
        .arg(crds.help("Print the CRDs of this program and exit"))
        .arg(v.help("Log verbosity: 0 to 2 info, 3 and 4 debug, 5 trace; -v is debug, -vv is trace"));
    for setting in KEYS {
        let mut arg = Arg::new(setting.key)
            .long(setting.flag_name())
            .value_name(setting.value);
        // For a wildcard this flag appears only in the help; the flags on the command line are added below.
        if !setting.flag.is_empty() {
            arg = arg.alias(setting.key);
        }
        if setting.value.is_empty() {
            let arg_or_not = arg.num_args(0..=1).require_equals(true);
            arg = arg_or_not.default_missing_value("true").value_name("BOOL");
        }
        let help = match setting.env {
            Some(env) => format!("{} [environment: {env}]", setting.help),
            None => setting.help.to_owned(),
        };
        command = command.arg(arg.help(help));
    }
    for key in wildcard_keys {
        command = command.arg(Arg::new(key.clone()).long(key.clone()).hide(true));
    }
    for own in own {
        let help = match own.default {
            "" => own.help.to_owned(),
            default => format!("{}; default: {default}", own.help),
        };
        command = command.arg(Arg::new(own.key).long(own.key).help(help));
    }
    command
}
