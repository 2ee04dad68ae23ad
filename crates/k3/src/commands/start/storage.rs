//! Flags that select a store: those of all backends.

use std::{path::Path, time::Duration};

use clap::{
    Arg, ArgMatches, Args, Command, Error, FromArgMatches,
    builder::{PossibleValue, PossibleValuesParser},
};
use k3_storage::backend::{
    BACKENDS, ConfigureError, SettingValues, StorageBackend, StorageConfig, find_backend,
};

use crate::{
    command_error::CommandError,
    commands::stores::shared_backends,
    prose::{and, backticked},
    setting_args,
};

const HEADING: &str = "Storage";
const DEFAULT: &str = "file";

#[derive(Debug)]
pub(crate) struct StorageFlags {
    backend: &'static dyn StorageBackend,
    wait: Duration,
    /// The settings of this backend.
    values: SettingValues,
}

// --- StorageFlags ---

impl StorageFlags {
    /// Whether the store is one that several servers may use at the same time.
    pub(in crate::commands) fn is_shared(&self) -> bool {
        self.backend.is_shared()
    }

    pub(in crate::commands) fn wait(&self) -> Duration {
        self.wait
    }

    pub(in crate::commands) fn config(
        &self,
        data_dir: &Path,
    ) -> Result<Box<dyn StorageConfig>, CommandError> {
        self.backend
            .configure(&self.values, data_dir)
            .map_err(cannot_configure)
    }
}

impl Args for StorageFlags {
    fn augment_args(command: Command) -> Command {
        let names = BACKENDS
            .iter()
            .map(|backend| PossibleValue::new(backend.name()).help(backend.summary()));
        let shared = and(shared_backends().map(|backend| backticked(backend.name())));
        let storage = Arg::new("storage")
            .long("storage")
            .visible_alias("backend")
            .value_name("STORE")
            .value_parser(PossibleValuesParser::new(names))
            .default_value(DEFAULT)
            .help("Storage backend");
        let wait = Arg::new("storage_wait")
            .long("storage-wait")
            .value_name("DURATION")
            .value_parser(crate::duration::parse)
            .default_value("0s")
            .help(format!(
                "With {shared}: how long a start waits for an unavailable store; 0s tries once"
            ));
        let settings = BACKENDS.iter().flat_map(|backend| backend.settings().all);
        let args = [storage, wait].into_iter().chain(settings.map(setting_args::arg));
        command.args(args.map(|arg| arg.help_heading(HEADING)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for StorageFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let name = matches
            .get_one::<String>("storage")
            .map_or(DEFAULT, String::as_str);
        let backend = find_backend(name).expect("the parser accepts names of backends only");
        Ok(Self {
            backend,
            wait: matches.get_one("storage_wait").copied().unwrap_or_default(),
            values: setting_args::values(backend.settings().all, matches),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

pub(in crate::commands) fn cannot_configure(error: ConfigureError) -> CommandError {
    match error {
        ConfigureError::Invalid { problem, advice } => CommandError::usage(problem, advice),
        ConfigureError::PasswordFile { file, source } => CommandError::new(
            format!("cannot read the password file {}", file.display()),
            "name a file that this user may read, with the password and nothing else",
        )
        .caused_by(source),
        error => CommandError::usage("the store is misconfigured", "see --help").caused_by(error),
    }
}

#[cfg(test)]
mod tests {
    use std::{any::Any, fs};

    use clap::Parser;
    use k3_storage::{
        etcd::EtcdOptions,
        file::{Durability, FileOptions},
        memory::MemoryOptions,
        mysql::MysqlOptions,
    };

    use super::*;

    #[derive(Debug, Parser)]
    struct TestCommandLine {
        #[command(flatten)]
        storage: StorageFlags,
    }

    fn flags(line: &str) -> StorageFlags {
        TestCommandLine::try_parse_from(["k3"].into_iter().chain(line.split_whitespace()))
            .unwrap()
            .storage
    }

    /// The options, which are those of the expected backend.
    fn config<T: Clone + 'static>(line: &str) -> Result<T, String> {
        let config = flags(line).config(Path::new("/data"));
        let config = config.map_err(|failure| failure.to_string())?;
        let options = (&*config as &dyn Any).downcast_ref::<T>();
        Ok(options.cloned().unwrap_or_else(|| panic!("{config:?}")))
    }

    #[test]
    fn stores_objects_in_the_data_directory_by_default() {
        let options: FileOptions = config("").unwrap();
        assert_eq!(options.directory, Path::new("/data/objects"));
        assert_eq!(options.durability, Durability::Synced);
        assert!(config::<MemoryOptions>("--storage memory").is_ok());
    }

    #[test]
    fn builds_etcd_options_from_flags() {
        let line = "--storage etcd --etcd-servers https://a:1,https://b:2 --etcd-prefix /x/ --etcd-cafile ca";
        let options: EtcdOptions = config(line).unwrap();
        assert_eq!(options.endpoints, ["https://a:1", "https://b:2"]);
        assert_eq!(options.prefix, "/x/");
        assert!(options.tls.is_some_and(|tls| tls.client.is_none()));
    }

    #[test]
    fn trims_the_line_end_of_password_files() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        fs::write(&file, "s3cret\n").unwrap();
        let line = format!(
            "--storage mysql --mysql-url mysql://u@h --mysql-password-file {}",
            file.display()
        );
        let options: MysqlOptions = config(&line).unwrap();
        assert_eq!(options.password, "s3cret");
        let missing = config::<MysqlOptions>("--storage mysql --mysql-password-file /no/such").unwrap_err();
        assert!(
            missing.contains("cannot read the password file /no/such"),
            "{missing}"
        );
    }

    #[test]
    fn rejects_etcd_without_members_and_file_without_path() {
        let message = config::<EtcdOptions>("--backend etcd").unwrap_err();
        assert!(message.contains("--etcd-servers"), "{message}");
        assert!(TestCommandLine::try_parse_from(["k3", "--backend=file", "--file-rootpath="]).is_err());
        let options: FileOptions = config("--backend=file --file-rootpath=/objects").unwrap();
        assert_eq!(options.directory, Path::new("/objects"));
    }

    #[test]
    fn rejects_invalid_values_of_settings() {
        for line in [
            "--storage redis",
            "--mysql-port 0",
            "--mysql-max-open-conns 2",
            "--mysql-tls maybe",
            "--etcd-dial-timeout 0s",
            "--etcd-certfile c",
        ] {
            let parsed = TestCommandLine::try_parse_from(["k3"].into_iter().chain(line.split_whitespace()));
            assert!(parsed.is_err(), "{line}");
        }
    }

    #[test]
    fn separate_flags_override_parts_of_the_url() {
        let options = |line: &str| {
            let options: MysqlOptions = config(&format!("--storage mysql {line}")).unwrap();
            (format!("{options:?}"), options.password)
        };
        let separate = "--mysql-host h --mysql-port 1 --mysql-user u --mysql-password p --mysql-database d";
        assert_eq!(options(separate), options("--mysql-url mysql://u:p@h:1/d"));
        assert_eq!(
            options(separate),
            options(&format!("--mysql-url mysql://a:b@c:2/e {separate}"))
        );
        assert_eq!(options(""), options("--mysql-url mysql://k3@127.0.0.1"));
        let (pool, _) = options("--mysql-max-open-conns 20 --mysql-max-idle-conns 7");
        assert!(pool.contains("max_open_conns: 20, max_idle_conns: 7"), "{pool}");
        assert!(config::<MysqlOptions>("--storage mysql --mysql-max-open-conns 3").is_err());
    }

    #[test]
    fn etcd_login_needs_user_name_and_password() {
        let etcd = "--storage etcd --etcd-servers http://a:1";
        let options: EtcdOptions = config(&format!(
            "{etcd} --etcd-username u --etcd-password p --etcd-dial-timeout 1m30s"
        ))
        .unwrap();
        assert!(
            options
                .login
                .is_some_and(|login| login.username == "u" && login.password == "p")
        );
        assert_eq!(options.dial_timeout, Duration::from_secs(90));
        for half in ["--etcd-username u", "--etcd-password p"] {
            assert!(
                config::<EtcdOptions>(&format!("{etcd} {half}")).is_err(),
                "{half}"
            );
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?}", flags("--storage mysql --mysql-url mysql://u:s3cret@h"));
        assert!(!shown.contains("s3cret"), "{shown}");
        let message = config::<MysqlOptions>("--storage mysql --mysql-url mysql://u:s3cret").unwrap_err();
        assert!(!message.contains("s3cret"), "{message}");
    }
}
