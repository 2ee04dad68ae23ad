//! Stores as URLs.
//!
//! Neither errors nor logs contain a URL, because it may contain a password.

use std::{convert::Infallible, fmt, path::Path, str::FromStr};

use clap::{CommandFactory, FromArgMatches, Parser};
use k3_storage::StorageConfig;

use super::super::{start::StorageFlags, stores::refuse_memory};
use crate::command_error::CommandError;

const FORMS: &str = "use file:DIR, etcd://HOST:PORT?prefix=/k3/ or mysql://USER@HOST:PORT/DB";

/// The URL of a store.
#[derive(Clone)]
pub(super) struct StoreUrl(String);

/// The flags of `k3 start` that correspond to a URL.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct StoreUrlFlags {
    #[command(flatten)]
    storage: StorageFlags,
}

// --- StoreUrl ---

impl StoreUrl {
    /// Parses the URL into the configuration of a store. `flag` is named in errors.
    pub(super) fn config(&self, flag: &str) -> Result<StorageConfig, CommandError> {
        let odd = |problem: &str| CommandError::usage(format!("invalid {flag}: {problem}"), FORMS);
        if let Some(directory) = self.0.strip_prefix("file:") {
            let directory = directory.strip_prefix("//").unwrap_or(directory);
            if directory.is_empty() {
                return Err(odd("it contains no directory"));
            }
            return parse(&["--storage=file".to_owned()], flag)?.config(Path::new(directory));
        }
        let (scheme, rest) = self.0.split_once(':').unwrap_or_default();
        let (url, query) = rest.split_once('?').unwrap_or((rest, ""));
        let parameters: Vec<_> = query.split('&').filter(|part| !part.is_empty()).collect();
        let mut line = match scheme {
            "etcd" => {
                let is_tls = parameters.iter().any(|part| part.starts_with("cafile="));
                let scheme = if is_tls { "https" } else { "http" };
                let hosts = url.trim_start_matches('/').trim_end_matches('/');
                if hosts.is_empty() {
                    return Err(odd("it has no host"));
                }
                let servers: Vec<_> = hosts
                    .split(',')
                    .map(|host| format!("{scheme}://{host}"))
                    .collect();
                vec![
                    "--storage=etcd".to_owned(),
                    format!("--etcd-servers={}", servers.join(",")),
                ]
            }
            "mysql" | "mariadb" => vec!["--storage=mysql".to_owned(), format!("--mysql-url=mysql:{url}")],
            "memory" => {
                refuse_memory(&StorageConfig::Memory)?;
                Vec::new()
            }
            _ => return Err(odd("it begins with none of file:, etcd: and mysql:")),
        };
        let prefix = if scheme == "etcd" { "etcd" } else { "mysql" };
        line.extend(parameters.iter().map(|part| format!("--{prefix}-{part}")));
        parse(&line, flag)?.config(Path::new(""))
    }
}

fn parse(line: &[String], flag: &str) -> Result<StorageFlags, CommandError> {
    // Environment variables configure a server, not one of the two stores: ignore them.
    let command = StoreUrlFlags::command().mut_args(|arg| arg.env(None::<&str>));
    let parsed = command
        .try_get_matches_from(line)
        .and_then(|matches| StoreUrlFlags::from_arg_matches(&matches));
    parsed.map(|line| line.storage).map_err(|error| {
        use clap::error::{ContextKind, ContextValue};
        let named = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(name)) => name.split('=').next().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        CommandError::usage(format!("invalid {flag}: check the value of {named}"), FORMS)
    })
}

impl FromStr for StoreUrl {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(StoreUrl(text.to_owned()))
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreUrl(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<StorageConfig, String> {
        let url: StoreUrl = text.parse().unwrap();
        url.config("--from").map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_directory_is_the_data_directory_of_a_server() {
        for text in ["file:/data", "file:///data"] {
            let Ok(StorageConfig::File(options)) = config(text) else {
                panic!("{text}")
            };
            assert_eq!(options.directory, Path::new("/data/objects"));
        }
    }

    #[test]
    fn etcd_and_mysql_take_the_settings_of_the_server() {
        let Ok(StorageConfig::Etcd(options)) = config("etcd://a:1,b:2?prefix=/x/&cafile=ca.pem") else {
            panic!()
        };
        assert_eq!(options.endpoints, ["https://a:1", "https://b:2"]);
        assert_eq!(options.prefix, "/x/");
        assert!(options.tls.is_some());
        let Ok(StorageConfig::Mysql(options)) = config("mysql://u:p@h:3307/db?tls=off") else {
            panic!()
        };
        assert_eq!((options.port, &*options.database), (3307, "db"));
    }

    #[test]
    fn rejects_invalid_urls_without_repeating_passwords() {
        for (text, word) in [
            ("", "begins with none"),
            ("file:", "no directory"),
            ("redis://s3cret", "begins with none"),
            ("etcd://", "no host"),
            ("etcd://a:1?colour=red", "--etcd-colour"),
            ("mysql://u:s3cret@h?colour=s3cret", "--mysql-colour"),
            ("mysql://u:s3cret@h?tls=s3cret", "--mysql-tls"),
            ("mysql://s3cret", "must name the user"),
            ("memory:", "only in its server's process"),
        ] {
            let message = config(text).unwrap_err();
            assert!(message.contains(word), "{text}: {message}");
            assert!(!message.contains("s3cret"), "{text}: {message}");
        }
    }
}
