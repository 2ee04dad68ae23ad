//! Settings of databases on demand.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};
use k3_node::runtime::detect::RuntimeSelection;
use k3_storage::backend::{BACKENDS, DatabaseBackend, Setting, SettingValues};

use crate::{prose::or, setting_args};

const HEADING: &str = "Databases on demand";

/// The flags of databases on demand.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseFlags {
    autostart: Autostart,
    images: SettingValues,
    instance: Option<String>,
}

/// Whether databases are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Autostart {
    On,
    Off,
}

/// Settings of databases on demand.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseSettings {
    pub(crate) autostart: Autostart,
    /// Images of the servers.
    pub(crate) images: SettingValues,
    /// Suffix of container and volume names; empty for the default instance of the machine.
    pub(crate) instance: String,
    /// The data directory, which stores a generated password.
    pub(crate) directory: PathBuf,
    /// The container runtime: Docker or Podman.
    pub(crate) runtime: RuntimeSelection,
}

// --- DatabaseFlags ---

impl DatabaseFlags {
    /// Converts the flags. A generated password is stored in `directory`; `runtime` selects Docker or Podman.
    pub(crate) fn settings(&self, directory: PathBuf, runtime: RuntimeSelection) -> DatabaseSettings {
        DatabaseSettings {
            autostart: self.autostart,
            images: self.images.clone(),
            instance: self.instance.clone().unwrap_or_default(),
            directory,
            runtime,
        }
    }
}

impl Args for DatabaseFlags {
    fn augment_args(command: Command) -> Command {
        let databases = BACKENDS
            .iter()
            .rev()
            .filter(|backend| backend.database().is_some());
        let autostart = Arg::new("database_autostart")
            .long("database-autostart")
            .value_name("BOOL")
            .action(ArgAction::Set)
            .value_parser(value_parser!(bool))
            .default_value("true")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .help(format!(
                "Start the {} of --storage as a container (Docker or Podman) if its address is local and nothing listens \
                 there. It is stopped with this process; its data stays in a volume",
                or(databases.map(|backend| backend.title()))
            ));
        let instance = Arg::new("database_instance")
            .long("database-instance")
            .value_name("NAME")
            .value_parser(instance)
            .help("Suffix of container and volume names, for several databases on one machine");
        let images = database_images().map(setting_args::arg);
        let args = [autostart].into_iter().chain(images).chain([instance]);
        command.args(args.map(|arg| arg.help_heading(HEADING)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for DatabaseFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self {
            autostart: match matches.get_one("database_autostart") {
                Some(false) => Autostart::Off,
                _ => Autostart::On,
            },
            images: setting_args::values(database_images(), matches),
            instance: matches.get_one("database_instance").cloned(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The images of all database servers; the newest backend is the first one in help.
pub(crate) fn database_images() -> impl Iterator<Item = &'static Setting> {
    let databases = BACKENDS.iter().rev().filter_map(|backend| backend.database());
    databases.map(DatabaseBackend::image)
}

fn instance(text: &str) -> Result<String, &'static str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if text.len() <= 40 && text.chars().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err("must be at most 40 letters, digits, '-', '_' and '.'")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct TestCommandLine {
        #[command(flatten)]
        databases: DatabaseFlags,
    }

    #[test]
    fn rejects_invalid_container_names() {
        assert!(TestCommandLine::try_parse_from(["k3", "--database-instance", "a b"]).is_err());
        assert!(TestCommandLine::try_parse_from(["k3", "--database-instance", "a-b_1.c"]).is_ok());
    }
}
