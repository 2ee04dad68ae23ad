//! The command line of a program.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};
use k3_config::{
    ConfigError, ConfigFile, ConfigSource, ConfiguredValue, EffectiveConfig, Environment, example,
    flag_values, markdown_table,
};

use super::{Config, ControllerSetting, settings::Settings};

/// The key that `-v` sets.
const LEVEL: &str = "log.level";

/// What a command line requests.
#[derive(Debug)]
pub(in crate::manager) enum CommandLine {
    /// Run the program.
    Run(Box<Config>),
    /// List the reconcilers of the program.
    List,
    /// Print the CRDs of the program.
    PrintCrds,
    /// Print this.
    PrintConfig(String),
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
    let settings = Settings::new(own);
    let table = &settings.table;
    let flags = table.untyped_flags(&args);
    let matches = command(program, about).args(flags).try_get_matches_from(args)?;
    let file = matches.get_one::<String>("config").map(|path| read_file(path));
    let file = file.transpose()?;
    let mut flags = flag_values(table, &matches);
    if let (Some(value), Some(key)) = (matches.get_one::<String>("v"), table.find(LEVEL)) {
        flags.retain(|flag| flag.name != LEVEL);
        flags.push(ConfiguredValue {
            key: key.clone(),
            name: LEVEL.to_owned(),
            written: "-v".to_owned(),
            values: vec![value.clone()],
            source: ConfigSource::Flag("-v".to_owned()),
        });
    }
    let environment = Environment {
        variable: &|name| env(name).map(OsString::from),
        names: &Vec::new,
    };
    let effective = EffectiveConfig::read(table, table, file.as_ref(), environment, &flags).check_flags();
    let config = settings.config(effective.clone())?;
    if matches.get_flag("list") {
        return Ok(CommandLine::List);
    }
    if matches.get_flag("print-crds") {
        return Ok(CommandLine::PrintCrds);
    }
    if let Some(form) = matches.get_one::<String>("print-config") {
        return Ok(CommandLine::PrintConfig(match form.as_str() {
            "example" => example(
                table,
                &format!("# All settings of {program} with their defaults.\n"),
            ),
            "markdown" => markdown_table(table) + "\n",
            _ => effective.yaml(table) + "\n",
        }));
    }
    Ok(CommandLine::Run(Box::new(config)))
}

fn read_file(path: &str) -> Result<ConfigFile, CommandLineError> {
    let text = std::fs::read_to_string(path).map_err(|error| CommandLineError::File {
        path: path.to_owned(),
        error,
    })?;
    let path = path.to_owned();
    Ok(ConfigFile { path, text })
}

fn command(program: &'static str, about: &str) -> Command {
    let config = Arg::new("config").short('c').long("config").value_name("FILE");
    let list = Arg::new("list").long("list").action(ArgAction::SetTrue);
    let crds = Arg::new("print-crds")
        .long("print-crds")
        .action(ArgAction::SetTrue);
    let print = Arg::new("print-config")
        .long("print-config")
        .value_name("FORM")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("effective")
        .value_parser(["effective", "example", "markdown"]);
    let v = Arg::new("v")
        .short('v')
        .value_name("LEVEL")
        .num_args(0..=1)
        .default_missing_value("4");
    Command::new(program)
        .about(about.to_owned())
        .version(env!("CARGO_PKG_VERSION"))
        .arg(config.help("Path to a YAML configuration file; flags override it"))
        .arg(list.help("List the reconcilers of this program and exit"))
        .arg(crds.help("Print the CRDs of this program and exit"))
        .arg(print.help(
            "Print the configuration with the source of each value and exit; or a file or table of all keys",
        ))
        .arg(v.help("Log verbosity: 0 to 2 info, 3 and 4 debug, 5 trace; -v is debug, -vv is trace"))
}
