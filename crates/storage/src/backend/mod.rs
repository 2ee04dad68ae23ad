//! What a storage backend is to the program that offers it, and the table of all.
//!
//! ```text
//! setting     settings as data: key, flag, help, default
//! config      a configured store, and why a configuration is rejected
//! database    the database server of a backend, which can be started in a container
//! ```
//!
//! A program asks the table and matches no names: its flags, configuration keys, help, URLs and messages are those of the
//! backends in it.

mod config;
mod database;
mod setting;

use std::{fmt, path::Path};

pub use self::{
    config::{ConfigureError, StorageConfig, read_password_file},
    database::{DatabaseBackend, DatabaseConfig, DatabaseContainer, DatabaseEndpoint},
    setting::{BackendSettings, Setting, SettingDefault, SettingKind, SettingValue, SettingValues},
};
use crate::{etcd::EtcdBackend, file::FileBackend, memory::MemoryBackend, mysql::MysqlBackend};

/// All backends, in the order in which help lists them.
pub static BACKENDS: &[&dyn StorageBackend] = &[&MemoryBackend, &FileBackend, &EtcdBackend, &MysqlBackend];

/// A kind of store.
pub trait StorageBackend: fmt::Debug + Send + Sync {
    /// The value of `--storage`, and the section of the settings.
    fn name(&self) -> &'static str;

    /// The name in sentences, such as `MySQL`.
    fn title(&self) -> &'static str;

    /// One line for help.
    fn summary(&self) -> &'static str;

    /// Whether several servers may use one store at the same time.
    fn is_shared(&self) -> bool;

    /// Whether a store exists outside of the process that opened it.
    fn is_persistent(&self) -> bool;

    /// The settings of a store.
    fn settings(&self) -> &'static BackendSettings;

    /// A store with these settings. `data_dir` is the data directory of its server. Reads password files.
    fn configure(
        &self,
        values: &SettingValues,
        data_dir: &Path,
    ) -> Result<Box<dyn StorageConfig>, ConfigureError>;

    /// How stores are written as URLs, if they are.
    fn url_form(&self) -> Option<&'static UrlForm> {
        None
    }

    /// The settings in a URL, which is without scheme and colon. No error contains any part of the URL, because it may
    /// contain a password.
    fn parse_url(&self, _url: &str) -> Result<UrlSettings, &'static str> {
        Err("stores of this kind have no URL")
    }

    /// The database server of the backend, if there is one.
    fn database(&self) -> Option<&'static dyn DatabaseBackend> {
        None
    }
}

/// How stores of a backend are written as URLs.
#[derive(Debug)]
pub struct UrlForm {
    /// The schemes without colon. The first one is shown.
    pub schemes: &'static [&'static str],
    /// All parts, for help.
    pub form: &'static str,
    /// What it stands for, for help.
    pub meaning: &'static str,
    /// A short form, for error messages.
    pub short_form: &'static str,
    /// The settings that may follow a `?`: their flags without the name of the backend.
    pub parameters: &'static [&'static str],
}

/// The settings in a URL.
#[derive(Default)]
pub struct UrlSettings {
    /// The data directory of the server that uses the store.
    pub data_dir: std::path::PathBuf,
    /// Flags without dashes, as `NAME=VALUE`.
    pub flags: Vec<String>,
}

/// The backend of this name.
pub fn find_backend(name: &str) -> Option<&'static dyn StorageBackend> {
    BACKENDS.iter().copied().find(|backend| backend.name() == name)
}

// --- UrlSettings ---

impl UrlSettings {
    /// Splits the parameters off. They are flags of the backend without its name.
    pub fn split_parameters<'u>(backend: &dyn StorageBackend, url: &'u str) -> (&'u str, Vec<String>) {
        let (location, query) = url.split_once('?').unwrap_or((url, ""));
        let parameters = query.split('&').filter(|part| !part.is_empty());
        let flags = parameters
            .map(|part| format!("{}-{part}", backend.name()))
            .collect();
        (location, flags)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_settings_and_schemes_are_unique() {
        let names: BTreeSet<_> = BACKENDS.iter().map(|backend| backend.name()).collect();
        assert_eq!(names.len(), BACKENDS.len());
        let all = || BACKENDS.iter().flat_map(|backend| backend.settings().all);
        let keys: BTreeSet<_> = all().map(|setting| setting.key).collect();
        let ids: BTreeSet<_> = all().map(|setting| setting.id).collect();
        assert_eq!((keys.len(), ids.len()), (all().count(), all().count()));
        let schemes = || {
            let forms = BACKENDS.iter().filter_map(|backend| backend.url_form());
            forms.flat_map(|form| form.schemes)
        };
        assert_eq!(schemes().collect::<BTreeSet<_>>().len(), schemes().count());
    }

    #[test]
    fn settings_are_in_the_section_of_their_backend() {
        for backend in BACKENDS {
            let name = backend.name();
            let settings = backend.settings();
            for setting in settings.all {
                assert!(
                    setting.key.starts_with(&format!("storage.{name}.")),
                    "{setting:?}"
                );
                assert!(setting.id.starts_with(&format!("{name}_")), "{setting:?}");
            }
            let pairs = settings.parts.iter().chain(settings.alternatives);
            for id in pairs.flat_map(|(one, other)| [one, other]) {
                assert!(settings.all.iter().any(|setting| setting.id == *id), "{id}");
            }
            assert!(
                find_backend(name).is_some_and(|found| found.name() == name),
                "{name}"
            );
        }
    }

    #[tokio::test]
    async fn each_configuration_opens_its_own_backend() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["memory", "file"] {
            let backend = find_backend(name).unwrap();
            let config = backend.configure(&SettingValues::default(), directory.path());
            let config = config.unwrap();
            assert_eq!(config.backend().name(), name);
            let store = config.open().await.unwrap();
            assert_eq!(store.health().await.unwrap().backend, name);
            store.close().await;
        }
    }
}
