//! Settings as flags.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use super::{
    Config, ConfigError, ConfigValue, ControllerSetting, Origin, file,
    keys::{KEYS, Setting},
};

/// What a command line asks for.
#[derive(Debug)]
pub(in crate::manager) enum CommandLine {
    /// To run.
    Run(Box<Config>),
    /// To list the reconcilers of the program.
    List,
    /// To print the definitions of its resources.
    PrintCrds,
}

/// Why a command line is not followed.
#[derive(Debug, thiserror::Error)]
pub(in crate::manager) enum CommandLineError {
    /// The line itself is wrong, or asks for help.
    #[error("{0}")]
    Line(#[from] clap::Error),
    /// A file it names cannot be read.
    #[error("{path}: {error}")]
    File {
        /// Its path.
        path: String,
        /// Why not.
        error: std::io::Error,
    },
    /// A setting is wrong.
    #[error("{0}")]
    Config(#[from] ConfigError),
}

/// Reads a command line, whose first word is the program's name.
pub(in crate::manager) fn read(
    program: &'static str,
    about: &str,
    own: &[ControllerSetting],
    args: Vec<OsString>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<CommandLine, CommandLineError> {
    let families = families(&args);
    let matches = command(program, about, own, &families).try_get_matches_from(args)?;
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
            let (key, origin) = (setting.key.to_owned(), Origin::Env(name));
            given.push(ConfigValue { key, value, origin });
        }
    }
    let keys = KEYS
        .iter()
        .filter(|setting| setting.family().is_none())
        .map(|setting| setting.key);
    let keys = keys
        .chain(own.iter().map(|own| own.key))
        .chain(families.iter().map(String::as_str));
    for key in keys {
        if let Some(value) = matches.get_one::<String>(key) {
            let flag = KEYS
                .iter()
                .find(|setting| setting.key == key)
                .map_or(key, |setting| setting.shown());
            let origin = Origin::Flag(format!("--{flag}"));
            let (key, value) = (key.to_owned(), value.clone());
            given.push(ConfigValue { key, value, origin });
        }
    }
    if let Some(value) = matches.get_one::<String>("v") {
        let (key, value) = ("log.level".to_owned(), value.clone());
        let origin = Origin::Flag("-v".to_owned());
        given.push(ConfigValue { key, value, origin });
    }
    let config = Config::from_given(&given, own)?;
    if matches.get_flag("list") {
        return Ok(CommandLine::List);
    }
    if matches.get_flag("print-crds") {
        return Ok(CommandLine::PrintCrds);
    }
    Ok(CommandLine::Run(Box::new(config)))
}

impl Setting {
    /// Its flag as help shows it.
    fn shown(&self) -> &'static str {
        if self.flag.is_empty() { self.key } else { self.flag }
    }
}

/// The flags on the line whose names are made up by whoever wrote it: `--resource-filter.pods`.
fn families(args: &[OsString]) -> Vec<String> {
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
        let is_of_family = Setting::find(key).is_some_and(|(setting, _)| setting.family().is_some());
        if is_of_family && !keys.iter().any(|known| known == key) {
            keys.push(key.to_owned());
        }
    }
    keys
}

fn command(program: &'static str, about: &str, own: &[ControllerSetting], families: &[String]) -> Command {
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
        .arg(config.help("Settings in YAML; each flag below goes before the file"))
        .arg(list.help("List the reconcilers of this program, and end"))
        .arg(crds.help("Print the definitions of the resources of this program, and end"))
        .arg(v.help("How chatty the log is: 0 to 2 info, 3 debug, 5 trace; -v is debug, -vv trace"));
    for setting in KEYS {
        let mut arg = Arg::new(setting.key)
            .long(setting.shown())
            .value_name(setting.value);
        // The real names of a family, if there are any, are added below; this one is for the help.
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
    for key in families {
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
