//! The options of an etcd store.

use std::{fmt, fs, path::PathBuf, time::Duration};

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::keyspace::Keyspace;
use crate::OpenError;

/// Keep-alive while a request or a watch is open. etcd hangs up on clients that ping more often than
/// every five seconds.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of an etcd store.
///
/// etcd's own limit of a request is 1.5 MiB with everything around the value: to store values of the full
/// [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES), start it with `--max-request-bytes=1600000`. Without that,
/// such a value is refused as too large.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The members, such as `https://10.0.0.1:2379`. Any of them serves; another one is tried when one
    /// does not. Default: `http://127.0.0.1:2379`.
    pub endpoints: Vec<String>,
    /// How to trust the members; needed exactly when the endpoints begin with `https`. Default: none.
    pub tls: Option<Tls>,
    /// User name and password. Default: none, for an etcd without authentication or with authentication by client certificate.
    pub login: Option<Login>,
    /// Dial timeout. Default: 2 seconds.
    pub dial_timeout: Duration,
    /// Timeout of a request with all attempts. Default: 10 seconds. The outcome of a write that takes longer is unknown, so a
    /// short timeout makes an overloaded etcd less usable.
    pub request_timeout: Duration,
    /// Key prefix of the store. Must end in `/`. Default: `/k3/`. Of two stores in one etcd, neither prefix may start with the
    /// other.
    pub prefix: String,
}

/// Certificate authorities and client certificate.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificate authorities that sign the members' certificates.
    pub ca: Pem,
    /// The certificate shown to the members. Default: none.
    pub client: Option<ClientCertificate>,
}

/// A certificate and its key.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The certificate, and those between it and the authority.
    pub certificate: Pem,
    /// Its private key.
    pub key: Pem,
}

/// A name and its password.
#[derive(Clone)]
pub struct Login {
    /// The name.
    pub username: String,
    /// The password. Never shown in messages.
    pub password: String,
}

/// Certificates or a key in PEM form.
#[derive(Clone)]
pub enum Pem {
    /// In a file, read when the store is opened.
    File(PathBuf),
    /// The PEM text.
    Text(String),
}

// --- EtcdOptions ---

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            endpoints: vec!["http://127.0.0.1:2379".to_owned()],
            tls: None,
            login: None,
            dial_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(10),
            prefix: "/k3/".to_owned(),
        }
    }
}

impl EtcdOptions {
    /// The default settings with these endpoints.
    pub fn at(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Validates the options and reads the files, without a request to etcd.
    pub(super) fn check(&self) -> Result<(Vec<Endpoint>, Keyspace), OpenError> {
        if self.endpoints.is_empty() {
            return Err(refuse("endpoints", "at least one is needed"));
        }
        if self.dial_timeout.is_zero() {
            return Err(refuse("dial_timeout", "it must be more than zero"));
        }
        if self.request_timeout.is_zero() {
            return Err(refuse("request_timeout", "it must be more than zero"));
        }
        if let Some(login) = &self.login
            && login.username.is_empty()
        {
            return Err(refuse("username", "it is empty"));
        }
        let keyspace = Keyspace::try_new(&self.prefix).map_err(|reason| refuse("prefix", reason))?;
        let tls = self.tls.as_ref().map(Tls::config).transpose()?;
        let endpoints = self
            .endpoints
            .iter()
            .map(|text| self.endpoint(text, tls.as_ref()))
            .collect::<Result<_, _>>()?;
        Ok((endpoints, keyspace))
    }

    fn endpoint(&self, text: &str, tls: Option<&ClientTlsConfig>) -> Result<Endpoint, OpenError> {
        let not_a_url = || {
            refuse(
                "endpoints",
                format!("{text:?} is not a URL such as http://127.0.0.1:2379"),
            )
        };
        let endpoint = Endpoint::from_shared(text.to_owned()).map_err(|_| not_a_url())?;
        if endpoint.uri().host().is_none_or(str::is_empty) {
            return Err(not_a_url());
        }
        let endpoint = match (endpoint.uri().scheme_str(), tls) {
            (Some("https"), Some(tls)) => endpoint
                .tls_config(tls.clone())
                .map_err(|error| refuse("tls", describe(&error)))?,
            (Some("https"), None) => {
                let reason =
                    format!("{text} asks for TLS, which needs the certificate authority of the members");
                return Err(refuse("tls", reason));
            }
            // Do not continue without TLS: secrets would be sent in clear text.
            (Some("http"), Some(_)) => {
                return Err(refuse(
                    "endpoints",
                    format!("{text} is without TLS, but TLS is set up"),
                ));
            }
            (Some("http"), None) => endpoint,
            _ => return Err(not_a_url()),
        };
        Ok(endpoint
            .connect_timeout(self.dial_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT))
    }
}

fn refuse(setting: &'static str, reason: impl Into<String>) -> OpenError {
    OpenError::InvalidSetting {
        setting,
        reason: reason.into(),
    }
}

/// Formats an error with its causes, because the outermost is often only "transport error".
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

// --- Tls ---

impl Tls {
    fn config(&self) -> Result<ClientTlsConfig, OpenError> {
        let ca = self.ca.read()?;
        if !ca.contains("-----BEGIN CERTIFICATE-----") {
            return Err(refuse("tls.ca", "it holds no certificate in PEM form"));
        }
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
        if let Some(client) = &self.client {
            let identity = Identity::from_pem(client.certificate.read()?, client.key.read()?);
            config = config.identity(identity);
        }
        Ok(config)
    }
}

// --- Login ---

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

// --- Pem ---

impl Pem {
    fn read(&self) -> Result<String, OpenError> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => fs::read_to_string(path).map_err(|source| OpenError::Io {
                path: path.clone(),
                source,
            }),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            // It may be a private key.
            Self::Text(_) => f.write_str("Text(..)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: &EtcdOptions) -> String {
        match options.check() {
            Err(error @ OpenError::InvalidSetting { .. }) => error.to_string(),
            Err(error) => panic!("another error than a setting: {error}"),
            Ok(_) => panic!("accepted: {options:?}"),
        }
    }

    #[test]
    fn names_an_invalid_setting() {
        let with = |change: fn(&mut EtcdOptions)| {
            let mut options = EtcdOptions::default();
            change(&mut options);
            refused(&options)
        };
        assert!(with(|o| o.endpoints.clear()).starts_with("endpoints: "));
        assert!(with(|o| o.endpoints = vec!["127.0.0.1:2379".into()]).starts_with("endpoints: "));
        assert!(with(|o| o.endpoints = vec!["ftp://x:1".into()]).starts_with("endpoints: "));
        assert!(with(|o| o.endpoints = vec!["https://x:1".into()]).starts_with("tls: "));
        assert!(with(|o| o.prefix = "/k3".into()).starts_with("prefix: "));
        assert!(with(|o| o.prefix = String::new()).starts_with("prefix: "));
        assert!(with(|o| o.dial_timeout = Duration::ZERO).starts_with("dial_timeout: "));
        assert!(with(|o| o.request_timeout = Duration::ZERO).starts_with("request_timeout: "));
        assert!(
            with(|o| {
                o.tls = Some(Tls {
                    ca: Pem::Text("nonsense".into()),
                    client: None,
                });
            })
            .starts_with("tls.ca: ")
        );
    }

    #[test]
    fn debug_output_hides_secrets() {
        let options = EtcdOptions {
            login: Some(Login {
                username: "root".into(),
                password: "s3cret".into(),
            }),
            tls: Some(Tls {
                ca: Pem::Text("s3cret".into()),
                client: None,
            }),
            ..EtcdOptions::default()
        };
        let shown = format!("{options:?}");
        assert!(shown.contains("root") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn names_a_missing_file() {
        let options = EtcdOptions {
            endpoints: vec!["https://x:1".into()],
            tls: Some(Tls {
                ca: Pem::File("/nowhere/ca.pem".into()),
                client: None,
            }),
            ..EtcdOptions::default()
        };
        let error = options.check().map(|_| ()).unwrap_err().to_string();
        assert_eq!(error, "cannot use /nowhere/ca.pem");
    }
}
