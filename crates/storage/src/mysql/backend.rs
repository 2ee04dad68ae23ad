//! The backend `mysql`: its settings, its URLs, and its server in a container.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;

use super::{BACKEND, MysqlOptions, MysqlStore, TlsMode, url};
use crate::{
    OpenError, Store,
    backend::{
        BackendSettings, ConfigureError, DatabaseBackend, DatabaseConfig, DatabaseContainer,
        DatabaseEndpoint, Setting, SettingKind, SettingValues, StorageBackend, StorageConfig, UrlForm,
        UrlSettings, read_password_file,
    },
};

/// Stores in a MySQL or MariaDB.
#[derive(Debug)]
pub struct MysqlBackend;

const URL: Setting = Setting::new(
    "storage.mysql.url",
    "mysql_url",
    SettingKind::Secret,
    "URL",
    "With `mysql`: URL of the database, such as `mysql://user@host:3306/k3`. Every user of the machine can read command \
     lines: pass a password in the variable, in --mysql-password-file or in the configuration file",
)
.with_variable("K3_MYSQL_URL");
const HOST: Setting = Setting::new(
    "storage.mysql.host",
    "mysql_host",
    SettingKind::Text,
    "HOST",
    "With `mysql`: host name or address of the server [default: 127.0.0.1]",
)
.with_implied_default("127.0.0.1");
const PORT: Setting = Setting::new(
    "storage.mysql.port",
    "mysql_port",
    SettingKind::Number { min: 1 },
    "PORT",
    "With `mysql`: the port of the server [default: 3306]",
)
.with_implied_default("3306");
const USER: Setting = Setting::new(
    "storage.mysql.user",
    "mysql_user",
    SettingKind::Text,
    "NAME",
    "With `mysql`: user name [default: k3]",
)
.with_implied_default("k3");
const PASSWORD: Setting = Setting::new(
    "storage.mysql.password",
    "mysql_password",
    SettingKind::Secret,
    "PASSWORD",
    "With `mysql`: password. Every user of the machine can read command lines",
);
const PASSWORD_FILE: Setting = Setting::new(
    "storage.mysql.password_file",
    "mysql_password_file",
    SettingKind::File,
    "FILE",
    "With `mysql`: file with the password",
);
const DATABASE: Setting = Setting::new(
    "storage.mysql.database",
    "mysql_database",
    SettingKind::Text,
    "NAME",
    "With `mysql`: database name, created if missing [default: k3]",
)
.with_implied_default("k3");
const MAX_OPEN_CONNS: Setting = Setting::new(
    "storage.mysql.max_open_conns",
    "mysql_max_open_conns",
    SettingKind::Number { min: 3 },
    "N",
    "With `mysql`: maximum number of open connections: one for writes, one for events, the others for reads",
)
.with_default("10");
const MAX_IDLE_CONNS: Setting = Setting::new(
    "storage.mysql.max_idle_conns",
    "mysql_max_idle_conns",
    SettingKind::Number { min: 0 },
    "N",
    "With `mysql`: maximum number of idle connections",
)
.with_default("5");
const TLS: Setting = Setting::new(
    "storage.mysql.tls",
    "mysql_tls",
    SettingKind::Choice(&[
        ("off", "No TLS"),
        (PREFERRED, "TLS if the server supports it, without verification"),
        ("required", "TLS without verification"),
        ("verified", "TLS with verification"),
    ]),
    "MODE",
    "With `mysql`: TLS mode [default: preferred]",
)
.with_implied_default(PREFERRED);
const CA_FILE: Setting = Setting::new(
    "storage.mysql.cafile",
    "mysql_cafile",
    SettingKind::File,
    "FILE",
    "With `--mysql-tls verified`: certificate authority of the server, in PEM [default: public authorities]",
);

static SETTINGS: BackendSettings = BackendSettings {
    all: &[
        URL,
        HOST,
        PORT,
        USER,
        PASSWORD,
        PASSWORD_FILE,
        DATABASE,
        MAX_OPEN_CONNS,
        MAX_IDLE_CONNS,
        TLS,
        CA_FILE,
    ],
    parts: &[
        (URL.id, HOST.id),
        (URL.id, PORT.id),
        (URL.id, USER.id),
        (URL.id, DATABASE.id),
    ],
    alternatives: &[(PASSWORD.id, PASSWORD_FILE.id)],
};

static IMAGE: Setting = Setting::new(
    "database.mysql_image",
    "mysql_image",
    SettingKind::Text,
    "IMAGE",
    "Image of MySQL or MariaDB",
)
.with_default("mysql:8.0");

const PREFERRED: &str = "preferred";
const DEFAULT_PORT: u16 = 3306;

// --- MysqlBackend ---

impl StorageBackend for MysqlBackend {
    fn name(&self) -> &'static str {
        BACKEND
    }

    fn title(&self) -> &'static str {
        "MySQL"
    }

    fn summary(&self) -> &'static str {
        "In MySQL 8, or MariaDB 10.11 and newer; several servers may share it"
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn settings(&self) -> &'static BackendSettings {
        &SETTINGS
    }

    fn configure(
        &self,
        values: &SettingValues,
        _data_dir: &Path,
    ) -> Result<Box<dyn StorageConfig>, ConfigureError> {
        let mut options = match values.text(&URL) {
            Some(text) => url::parse(text).map_err(|problem| {
                ConfigureError::invalid(
                    format!("invalid --mysql-url: {problem}"),
                    "write it as mysql://user@host:3306/k3",
                )
            })?,
            None => MysqlOptions::default(),
        };
        let parts = [
            (&mut options.host, &HOST),
            (&mut options.user, &USER),
            (&mut options.database, &DATABASE),
            (&mut options.password, &PASSWORD),
        ];
        for (part, setting) in parts {
            if let Some(value) = values.text(setting) {
                value.clone_into(part);
            }
        }
        options.port = values.number(&PORT).unwrap_or(options.port);
        if values.text(&PASSWORD).is_none()
            && let Some(file) = values.path(&PASSWORD_FILE)
        {
            options.password = read_password_file(file)?;
        }
        set_pool(&mut options, values)?;
        options.tls = tls(values)?;
        Ok(Box::new(options))
    }

    fn url_form(&self) -> Option<&'static UrlForm> {
        Some(&UrlForm {
            schemes: &["mysql", "mariadb"],
            form: "mysql://USER@HOST[:PORT][/DB]",
            meaning: "a MySQL or MariaDB",
            short_form: "mysql://USER@HOST:PORT/DB",
            parameters: &["tls", "cafile", "password-file"],
        })
    }

    fn parse_url(&self, url: &str) -> Result<UrlSettings, &'static str> {
        let (location, mut flags) = UrlSettings::split_parameters(self, url);
        flags.insert(0, format!("mysql-url=mysql:{location}"));
        Ok(UrlSettings {
            flags,
            ..UrlSettings::default()
        })
    }

    fn database(&self) -> Option<&'static dyn DatabaseBackend> {
        Some(&MysqlBackend)
    }
}

fn set_pool(options: &mut MysqlOptions, values: &SettingValues) -> Result<(), ConfigureError> {
    if let Some(open) = values.number(&MAX_OPEN_CONNS) {
        options.max_open_conns = open.into();
    }
    if let Some(idle) = values.number(&MAX_IDLE_CONNS) {
        options.max_idle_conns = idle.into();
    }
    if options.max_idle_conns > options.max_open_conns {
        return Err(ConfigureError::invalid(
            format!(
                "--mysql-max-idle-conns {} is more than --mysql-max-open-conns {}",
                options.max_idle_conns, options.max_open_conns
            ),
            "idle connections count as open connections",
        ));
    }
    Ok(())
}

fn tls(values: &SettingValues) -> Result<TlsMode, ConfigureError> {
    let mode = values.text(&TLS);
    let ca_file = values.path(&CA_FILE);
    if mode != Some("verified") && ca_file.is_some() {
        return Err(ConfigureError::invalid(
            "--mysql-cafile needs --mysql-tls verified",
            "add --mysql-tls verified",
        ));
    }
    Ok(match mode {
        Some("verified") => TlsMode::Verified {
            ca_file: ca_file.map(Path::to_owned),
        },
        Some("off") => TlsMode::Off,
        Some("required") => TlsMode::Required,
        _ => TlsMode::Preferred,
    })
}

impl DatabaseBackend for MysqlBackend {
    fn image(&self) -> &'static Setting {
        &IMAGE
    }

    fn default_port(&self) -> u16 {
        DEFAULT_PORT
    }

    fn cluster_settings(&self, id: &str, port: u16) -> Vec<(&'static str, String)> {
        vec![
            ("port", port.to_string()),
            ("user", "root".to_owned()),
            ("database", format!("k3_{id}")),
        ]
    }
}

// --- MysqlOptions ---

#[async_trait]
impl StorageConfig for MysqlOptions {
    fn backend(&self) -> &'static dyn StorageBackend {
        &MysqlBackend
    }

    fn describe(&self) -> String {
        format!("{BACKEND}:{}", self.location())
    }

    async fn open(&self) -> Result<Arc<dyn Store>, OpenError> {
        Ok(MysqlStore::open(self.clone()).await?)
    }

    fn database(&self) -> Option<&dyn DatabaseConfig> {
        Some(self)
    }

    fn database_mut(&mut self) -> Option<&mut dyn DatabaseConfig> {
        Some(self)
    }
}

impl DatabaseConfig for MysqlOptions {
    fn endpoints(&self) -> Option<Vec<DatabaseEndpoint>> {
        Some(vec![DatabaseEndpoint {
            host: self.host.clone(),
            port: self.port,
        }])
    }

    fn container(&self, port: u16) -> DatabaseContainer {
        let mut env = vec![
            ("MYSQL_DATABASE", &self.database),
            ("MYSQL_ROOT_PASSWORD", &self.password),
        ];
        if self.user != "root" {
            env.push(("MYSQL_USER", &self.user));
            env.push(("MYSQL_PASSWORD", &self.password));
        }
        let env = env.into_iter();
        DatabaseContainer {
            env: env
                .map(|(name, value)| (name.to_owned(), value.clone()))
                .collect(),
            ports: vec![(port, DEFAULT_PORT)],
            data_path: "/var/lib/mysql",
            ..DatabaseContainer::default()
        }
    }

    fn lacks_password(&self) -> bool {
        self.password.is_empty()
    }

    fn fill_password(&mut self, password: String) {
        if self.password.is_empty() {
            self.password = password;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container_of(user: &str) -> DatabaseContainer {
        let options = MysqlOptions {
            user: user.to_owned(),
            password: "s3cret".to_owned(),
            ..MysqlOptions::default()
        };
        options.container(3307)
    }

    #[test]
    fn a_container_has_the_database_and_the_user() {
        let root = container_of("root");
        let expected = [("MYSQL_DATABASE", "k3"), ("MYSQL_ROOT_PASSWORD", "s3cret")];
        assert_eq!(root.env, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(root.ports, [(3307, 3306)]);
        let other = container_of("k3");
        assert!(other.env.contains(&("MYSQL_USER".into(), "k3".into())));
        assert!(other.env.contains(&("MYSQL_PASSWORD".into(), "s3cret".into())));
    }

    #[test]
    fn a_generated_password_replaces_no_other() {
        let mut options = MysqlOptions::default();
        assert!(options.lacks_password());
        options.fill_password("first".to_owned());
        options.fill_password("second".to_owned());
        assert_eq!(options.password, "first");
    }
}
