//! The backend `etcd`: its settings, its URLs, and its server in a container.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use tonic::transport::Uri;

use super::{BACKEND, ClientCertificate, EtcdOptions, EtcdStore, Login, Pem, Tls};
use crate::{
    OpenError, Store,
    backend::{
        BackendSettings, ConfigureError, DatabaseBackend, DatabaseConfig, DatabaseContainer,
        DatabaseEndpoint, Setting, SettingKind, SettingValues, StorageBackend, StorageConfig, UrlForm,
        UrlSettings, read_password_file,
    },
};

/// Stores in an etcd.
#[derive(Debug)]
pub struct EtcdBackend;

const ENDPOINTS: Setting = Setting::new(
    "storage.etcd.endpoints",
    "etcd_servers",
    SettingKind::List,
    "URLS",
    "With `etcd`: URLs of the members, comma-separated, such as `http://127.0.0.1:2379`",
);
const DIAL_TIMEOUT: Setting = Setting::new(
    "storage.etcd.dial_timeout",
    "etcd_dial_timeout",
    SettingKind::Duration,
    "DURATION",
    "With `etcd`: dial timeout, such as 5s or 1m30s",
)
.with_default("5s");
const PREFIX: Setting = Setting::new(
    "storage.etcd.prefix",
    "etcd_prefix",
    SettingKind::Text,
    "PREFIX",
    "With `etcd`: key prefix; each cluster in an etcd needs its own [default: /k3/]",
)
.with_implied_default("/k3/");
const CA_FILE: Setting = Setting::new(
    "storage.etcd.cafile",
    "etcd_cafile",
    SettingKind::File,
    "FILE",
    "With `etcd` over https: certificate authority of the members, in PEM",
);
const CERT_FILE: Setting = Setting::new(
    "storage.etcd.certfile",
    "etcd_certfile",
    SettingKind::File,
    "FILE",
    "With `etcd` over https: client certificate, in PEM",
)
.requiring(&["etcd_keyfile", "etcd_cafile"]);
const KEY_FILE: Setting = Setting::new(
    "storage.etcd.keyfile",
    "etcd_keyfile",
    SettingKind::File,
    "FILE",
    "With `etcd` over https: the key of --etcd-certfile, in PEM",
)
.requiring(&["etcd_certfile"]);
const USERNAME: Setting = Setting::new(
    "storage.etcd.username",
    "etcd_username",
    SettingKind::Text,
    "NAME",
    "With `etcd`: user name [default: none]",
);
const PASSWORD: Setting = Setting::new(
    "storage.etcd.password",
    "etcd_password",
    SettingKind::Secret,
    "PASSWORD",
    "With `etcd`: password of --etcd-username. Every user of the machine can read command lines: use the variable or the \
     configuration file",
);
const PASSWORD_FILE: Setting = Setting::new(
    "storage.etcd.password_file",
    "etcd_password_file",
    SettingKind::File,
    "FILE",
    "With `etcd`: file with the password of --etcd-username",
);

static SETTINGS: BackendSettings = BackendSettings {
    all: &[
        ENDPOINTS,
        DIAL_TIMEOUT,
        PREFIX,
        CA_FILE,
        CERT_FILE,
        KEY_FILE,
        USERNAME,
        PASSWORD,
        PASSWORD_FILE,
    ],
    parts: &[],
    alternatives: &[(PASSWORD.id, PASSWORD_FILE.id)],
};

static IMAGE: Setting = Setting::new(
    "database.etcd_image",
    "etcd_image",
    SettingKind::Text,
    "IMAGE",
    "Image of etcd 3.5 or newer, with the program at /usr/local/bin/etcd",
)
.with_default("quay.io/coreos/etcd:v3.5.21");

/// The path of etcd in its image, which has no entry point.
const PROGRAM: &str = "/usr/local/bin/etcd";
/// Default ports of etcd.
const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;

// --- EtcdBackend ---

impl StorageBackend for EtcdBackend {
    fn name(&self) -> &'static str {
        BACKEND
    }

    fn title(&self) -> &'static str {
        "etcd"
    }

    fn summary(&self) -> &'static str {
        "In an etcd 3.4 or newer; several servers may share it"
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
        let endpoints = values.list(&ENDPOINTS);
        if endpoints.iter().all(String::is_empty) {
            return Err(ConfigureError::invalid(
                "--storage etcd needs --etcd-servers",
                "add --etcd-servers http://127.0.0.1:2379, or storage.etcd.endpoints to the configuration file",
            ));
        }
        let mut options = EtcdOptions::at(endpoints);
        if let Some(timeout) = values.duration(&DIAL_TIMEOUT) {
            options.dial_timeout = timeout;
        }
        if let Some(prefix) = values.text(&PREFIX) {
            prefix.clone_into(&mut options.prefix);
        }
        let pem = |path: &Path| Pem::File(path.to_owned());
        options.tls = values.path(&CA_FILE).map(|ca| Tls {
            ca: pem(ca),
            client: values
                .path(&CERT_FILE)
                .zip(values.path(&KEY_FILE))
                .map(|(certificate, key)| ClientCertificate {
                    certificate: pem(certificate),
                    key: pem(key),
                }),
        });
        options.login = login(values)?;
        Ok(Box::new(options))
    }

    fn url_form(&self) -> Option<&'static UrlForm> {
        Some(&UrlForm {
            schemes: &["etcd"],
            form: "etcd://HOST:PORT[,HOST:PORT]",
            meaning: "an etcd; with cafile= over TLS",
            short_form: "etcd://HOST:PORT?prefix=/k3/",
            parameters: &[
                "prefix",
                "cafile",
                "certfile",
                "keyfile",
                "username",
                "password-file",
            ],
        })
    }

    fn parse_url(&self, url: &str) -> Result<UrlSettings, &'static str> {
        let (location, mut flags) = UrlSettings::split_parameters(self, url);
        let is_tls = flags.iter().any(|flag| flag.starts_with("etcd-cafile="));
        let scheme = if is_tls { "https" } else { "http" };
        let hosts = location.trim_start_matches('/').trim_end_matches('/');
        if hosts.is_empty() {
            return Err("it has no host");
        }
        let servers: Vec<_> = hosts
            .split(',')
            .map(|host| format!("{scheme}://{host}"))
            .collect();
        flags.insert(0, format!("etcd-servers={}", servers.join(",")));
        Ok(UrlSettings {
            flags,
            ..UrlSettings::default()
        })
    }

    fn database(&self) -> Option<&'static dyn DatabaseBackend> {
        Some(&EtcdBackend)
    }
}

fn login(values: &SettingValues) -> Result<Option<Login>, ConfigureError> {
    let password = match (values.text(&PASSWORD), values.path(&PASSWORD_FILE)) {
        (Some(password), _) => Some(password.to_owned()),
        (None, Some(file)) => Some(read_password_file(file)?),
        (None, None) => None,
    };
    match (values.text(&USERNAME), password) {
        (Some(username), Some(password)) => Ok(Some(Login {
            username: username.to_owned(),
            password,
        })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(ConfigureError::invalid(
            "--etcd-username needs a password",
            "add --etcd-password-file, or set K3_STORAGE_ETCD_PASSWORD",
        )),
        (None, Some(_)) => Err(ConfigureError::invalid(
            "--etcd-password needs --etcd-username",
            "add --etcd-username",
        )),
    }
}

impl DatabaseBackend for EtcdBackend {
    fn image(&self) -> &'static Setting {
        &IMAGE
    }

    fn default_port(&self) -> u16 {
        CLIENT_PORT
    }

    fn cluster_settings(&self, id: &str, port: u16) -> Vec<(&'static str, String)> {
        vec![
            ("endpoints", format!("[\"http://127.0.0.1:{port}\"]")),
            ("prefix", format!("/k3/{id}/")),
        ]
    }
}

// --- EtcdOptions ---

#[async_trait]
impl StorageConfig for EtcdOptions {
    fn backend(&self) -> &'static dyn StorageBackend {
        &EtcdBackend
    }

    fn describe(&self) -> String {
        format!("{BACKEND}:{}", self.endpoints.join(","))
    }

    async fn open(&self) -> Result<Arc<dyn Store>, OpenError> {
        Ok(EtcdStore::open(self.clone()).await?)
    }

    fn database(&self) -> Option<&dyn DatabaseConfig> {
        Some(self)
    }

    fn database_mut(&mut self) -> Option<&mut dyn DatabaseConfig> {
        Some(self)
    }
}

impl DatabaseConfig for EtcdOptions {
    fn endpoints(&self) -> Option<Vec<DatabaseEndpoint>> {
        self.endpoints.iter().map(|endpoint| address(endpoint)).collect()
    }

    fn container(&self, client: u16) -> DatabaseContainer {
        let peer = peer_port(client);
        let args = [
            ("name", "k3".to_owned()),
            ("data-dir", "/etcd-data".to_owned()),
            ("listen-client-urls", format!("http://0.0.0.0:{client}")),
            ("advertise-client-urls", format!("http://127.0.0.1:{client}")),
            ("listen-peer-urls", format!("http://0.0.0.0:{peer}")),
            ("initial-advertise-peer-urls", format!("http://127.0.0.1:{peer}")),
            ("initial-cluster", format!("k3=http://127.0.0.1:{peer}")),
            ("initial-cluster-token", "k3-etcd".to_owned()),
            ("initial-cluster-state", "new".to_owned()),
        ];
        DatabaseContainer {
            entrypoint: vec![PROGRAM.to_owned()],
            args: args.map(|(flag, value)| format!("--{flag}={value}")).into(),
            env: Vec::new(),
            ports: vec![(client, client), (peer, peer)],
            data_path: "/etcd-data",
        }
    }

    fn unsupported(&self) -> Option<&'static str> {
        (self.login.is_some() || self.tls.is_some()).then_some("an etcd with authentication or TLS")
    }
}

fn address(endpoint: &str) -> Option<DatabaseEndpoint> {
    let uri: Uri = endpoint.parse().ok()?;
    Some(DatabaseEndpoint {
        host: uri.host()?.trim_matches(['[', ']']).to_owned(),
        port: uri.port_u16().unwrap_or(CLIENT_PORT),
    })
}

/// The port of the peer URL of an etcd with this client port.
fn peer_port(client: u16) -> u16 {
    match client {
        CLIENT_PORT => PEER_PORT,
        other => other.checked_add(1).unwrap_or(PEER_PORT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derives_the_peer_port() {
        for (client, peer) in [(2379, 2380), (3379, 3380), (65535, 2380)] {
            let container = EtcdOptions::default().container(client);
            assert_eq!(container.ports, [(client, client), (peer, peer)]);
        }
        let container = EtcdOptions::default().container(3379);
        assert_eq!(container.entrypoint, ["/usr/local/bin/etcd"]);
        let listen = "--listen-client-urls=http://0.0.0.0:3379".to_owned();
        assert!(container.args.contains(&listen));
    }

    #[test]
    fn finds_host_and_port_of_endpoints() {
        let endpoint = |host: &str, port| DatabaseEndpoint {
            host: host.to_owned(),
            port,
        };
        let options = EtcdOptions::at(["http://localhost", "http://[::1]:3379"]);
        let expected = vec![endpoint("localhost", 2379), endpoint("::1", 3379)];
        assert_eq!(DatabaseConfig::endpoints(&options), Some(expected));
        assert_eq!(DatabaseConfig::endpoints(&EtcdOptions::at(["not a url"])), None);
    }
}
