//! Stores as URLs.
//!
//! Neither errors nor logs contain a URL, because it may contain a password.

use std::{convert::Infallible, fmt, str::FromStr};

use clap::{CommandFactory, FromArgMatches, Parser};
use k3_storage::backend::{StorageBackend, StorageConfig, UrlSettings, find_backend};

use super::{
    super::{start::StorageFlags, stores::require_persistent},
    url_forms,
};
use crate::{
    command_error::CommandError,
    prose::{and, or},
};

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
    pub(super) fn config(&self, flag: &str) -> Result<Box<dyn StorageConfig>, CommandError> {
        let invalid =
            |problem: &str| CommandError::usage(format!("invalid {flag}: {problem}"), expected_forms());
        let (scheme, rest) = self.0.split_once(':').unwrap_or_default();
        let Some(backend) = backend_of_scheme(scheme) else {
            let schemes = url_forms().filter_map(|(_, form)| form.schemes.first());
            let schemes = and(schemes.map(|scheme| format!("{scheme}:")));
            return Err(invalid(&format!("it begins with none of {schemes}")));
        };
        require_persistent(backend)?;
        let settings = backend.parse_url(rest).map_err(invalid)?;
        let flags = parse(backend, &settings, flag)?;
        flags.config(&settings.data_dir)
    }
}

/// The backend of a URL. One whose stores have none is found by its name, so that an error can say why.
fn backend_of_scheme(scheme: &str) -> Option<&'static dyn StorageBackend> {
    let named = url_forms().find(|(_, form)| form.schemes.contains(&scheme));
    named.map_or_else(|| find_backend(scheme), |(backend, _)| Some(backend))
}

/// What to write instead of an invalid URL.
fn expected_forms() -> String {
    format!("use {}", or(url_forms().map(|(_, form)| form.short_form)))
}

fn parse(
    backend: &dyn StorageBackend,
    settings: &UrlSettings,
    flag: &str,
) -> Result<StorageFlags, CommandError> {
    let mut line = vec![format!("--storage={}", backend.name())];
    line.extend(settings.flags.iter().map(|flag| format!("--{flag}")));
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
        CommandError::usage(
            format!("invalid {flag}: check the value of {named}"),
            expected_forms(),
        )
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
    use std::{any::Any, path::Path};

    use k3_storage::{etcd::EtcdOptions, file::FileOptions, mysql::MysqlOptions};

    use super::*;

    /// The options, which are those of the expected backend.
    fn config<T: Clone + 'static>(text: &str) -> Result<T, String> {
        let url: StoreUrl = text.parse().unwrap();
        let config = url.config("--from").map_err(|failure| failure.to_string())?;
        let options = (&*config as &dyn Any).downcast_ref::<T>();
        Ok(options.cloned().unwrap_or_else(|| panic!("{config:?}")))
    }

    #[test]
    fn a_directory_is_the_data_directory_of_a_server() {
        for text in ["file:/data", "file:///data"] {
            let options: FileOptions = config(text).unwrap();
            assert_eq!(options.directory, Path::new("/data/objects"));
        }
    }

    #[test]
    fn etcd_and_mysql_take_the_settings_of_the_server() {
        let options: EtcdOptions = config("etcd://a:1,b:2?prefix=/x/&cafile=ca.pem").unwrap();
        assert_eq!(options.endpoints, ["https://a:1", "https://b:2"]);
        assert_eq!(options.prefix, "/x/");
        assert!(options.tls.is_some());
        let options: MysqlOptions = config("mysql://u:p@h:3307/db?tls=off").unwrap();
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
            let message = config::<FileOptions>(text).unwrap_err();
            assert!(message.contains(word), "{text}: {message}");
            assert!(!message.contains("s3cret"), "{text}: {message}");
        }
    }
}
