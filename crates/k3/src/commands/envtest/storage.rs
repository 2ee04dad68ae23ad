//! The store of an API server in a test environment.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use http::{Request, Uri};
use k3_storage::{
    backend::{Setting, SettingValues, StorageBackend, StorageConfig},
    etcd::EtcdBackend,
    file::{Durability, FileOptions},
};
use kube::{Client, Config};

use super::etcd::DATA_DIR_PATH;
use crate::{command_error::CommandError, commands::start::cannot_configure, setting_args};

/// Timeout of the request that detects whether the etcd is k3.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The setting without which there is no store.
const SERVERS: &str = "etcd_servers";

/// The settings of an etcd, which may be one that is k3.
#[derive(Debug)]
pub(super) struct EtcdStorageFlags(SettingValues);

// --- EtcdStorageFlags ---

impl EtcdStorageFlags {
    /// Returns the data directory of the etcd substitute as the store, or the real etcd.
    pub(super) async fn config(&self) -> Result<Box<dyn StorageConfig>, CommandError> {
        let mut servers = settings()
            .filter(|setting| setting.id == SERVERS)
            .flat_map(|setting| self.0.list(setting));
        if let (Some(server), None) = (servers.next(), servers.next())
            && let Some(directory) = directory_of(server).await?
        {
            return Ok(Box::new(FileOptions {
                // The objects are discarded after the tests.
                durability: Durability::Relaxed,
                ..FileOptions::new(directory.join("k3"))
            }));
        }
        EtcdBackend
            .configure(&self.0, Path::new(""))
            .map_err(cannot_configure)
    }
}

impl Args for EtcdStorageFlags {
    fn augment_args(command: Command) -> Command {
        let args = settings().map(|setting| {
            let arg = setting_args::arg(setting).help_heading("Storage");
            arg.required(setting.id == SERVERS)
        });
        command.args(args)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EtcdStorageFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(setting_args::values(settings(), matches)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn settings() -> impl Iterator<Item = &'static Setting> {
    EtcdBackend.settings().all.iter()
}

/// Returns the data directory of an etcd substitute, or `None` for any other server.
async fn directory_of(server: &str) -> Result<Option<PathBuf>, CommandError> {
    if !server.starts_with("http://") {
        return Ok(None);
    }
    let unusable = |error: Box<dyn std::error::Error + Send + Sync>| {
        let advice = "use a URL such as http://127.0.0.1:2379";
        CommandError::usage(format!("--etcd-servers {server}"), advice).caused_by(error)
    };
    let uri: Uri = server
        .parse()
        .map_err(|error: http::uri::InvalidUri| unusable(error.into()))?;
    let mut config = Config::new(uri);
    config.connect_timeout = Some(TIMEOUT);
    config.read_timeout = Some(TIMEOUT);
    let client = Client::try_from(config).map_err(|error| unusable(error.into()))?;
    let request = Request::get(DATA_DIR_PATH)
        .body(Vec::new())
        .expect("the path is valid");
    // A real etcd returns 404. An unreachable server is reported when the store is opened.
    Ok(client.request_text(request).await.ok().map(PathBuf::from))
}
