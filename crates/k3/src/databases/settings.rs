//! Settings of databases on demand.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use k3_node::runtime::detect::RuntimeSelection;

/// The flags of databases on demand.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Databases on demand")]
pub(crate) struct DatabaseFlags {
    /// Start the MySQL or etcd of --storage as a container (Docker or Podman) if its address is local and nothing
    /// listens there. It is stopped with this process; its data stays in a volume
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    database_autostart: bool,

    /// Image of MySQL or MariaDB
    #[arg(long, value_name = "IMAGE", default_value = "mysql:8.0")]
    mysql_image: String,

    /// Image of etcd 3.5 or newer, with the program at /usr/local/bin/etcd
    #[arg(long, value_name = "IMAGE", default_value = "quay.io/coreos/etcd:v3.5.21")]
    etcd_image: String,

    /// Suffix of container and volume names, for several databases on one machine
    #[arg(long, value_name = "NAME", value_parser = instance)]
    database_instance: Option<String>,
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
    pub(crate) mysql_image: String,
    pub(crate) etcd_image: String,
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
            autostart: if self.database_autostart {
                Autostart::On
            } else {
                Autostart::Off
            },
            mysql_image: self.mysql_image.clone(),
            etcd_image: self.etcd_image.clone(),
            instance: self.database_instance.clone().unwrap_or_default(),
            directory,
            runtime,
        }
    }
}

fn instance(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if text.len() <= 40 && text.chars().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err("must be at most 40 letters, digits, '-', '_' and '.'".to_owned())
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
