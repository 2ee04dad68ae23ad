//! The destination of a webhook call: URL or service, and CA bundle.

use std::time::Duration;

use http::Uri;
use k3_api::{base64, strategy::Tree};
use serde_json::Value;

use super::CallError;

const HTTPS: u16 = 443;

/// The destination of a call, and the trusted authorities.
// upstream: staging/src/k8s.io/apiserver/pkg/util/webhook/client.go HookClient
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    pub(super) server: DestinationServer,
    /// The path, clean: it begins with a slash and ends with none.
    path: String,
    /// The authorities, as PEM; empty for those of the system.
    pub(super) authorities: Vec<u8>,
}

/// Which server is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum DestinationServer {
    /// The one at an address: a name or a number, as in a URL.
    Host {
        authority: String,
        host: String,
        port: u16,
    },
    /// One behind a service of the cluster.
    Service {
        namespace: String,
        name: String,
        port: u16,
    },
}

// --- Destination ---

impl Destination {
    /// Reads the `clientConfig` of a webhook.
    pub(crate) fn read(client: &Value) -> Result<Self, CallError> {
        let bundle = client.text("caBundle");
        let authorities = base64::decode(bundle).map_err(|_| CallError::authorities())?;
        let service = client.at("service");
        if !service.is_null() {
            let port = service.int("port").and_then(|port| u16::try_from(port).ok());
            return Ok(Destination {
                server: DestinationServer::Service {
                    namespace: service.text("namespace").to_owned(),
                    name: service.text("name").to_owned(),
                    port: port.unwrap_or(HTTPS),
                },
                path: clean(service.text("path")),
                authorities,
            });
        }
        let url = client.text("url");
        if url.is_empty() {
            return Err(CallError::new(
                "webhook configuration must have either service or URL",
            ));
        }
        let uri: Uri = url
            .parse()
            .map_err(|error| CallError::new(format!("Unparsable URL: {error}")))?;
        let host = uri.host().unwrap_or_default();
        Ok(Destination {
            server: DestinationServer::Host {
                authority: uri.authority().map(ToString::to_string).unwrap_or_default(),
                host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
                port: uri.port_u16().unwrap_or(HTTPS),
            },
            path: clean(uri.path()),
            authorities,
        })
    }

    /// The URL of a call that may take so long.
    pub(super) fn url(&self, timeout: Option<Duration>) -> String {
        let mut url = format!("https://{}{}", self.authority(), self.path);
        if let Some(timeout) = timeout {
            let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
            url.push_str("?timeout=");
            url.push_str(&k3_duration::format(Duration::from_secs(seconds)));
        }
        url
    }

    /// The host, and the port if it was said.
    pub(super) fn authority(&self) -> String {
        match &self.server {
            DestinationServer::Host { authority, .. } => authority.clone(),
            DestinationServer::Service { port, .. } => format!("{}:{port}", self.server_name()),
        }
    }

    /// The name that the certificate of the other side must have.
    pub(super) fn server_name(&self) -> String {
        match &self.server {
            DestinationServer::Host { host, .. } => host.clone(),
            DestinationServer::Service { namespace, name, .. } => format!("{name}.{namespace}.svc"),
        }
    }
}

/// A path without empty parts, and without those that lead back.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn url(client: &Value) -> String {
        let to = Destination::read(client).unwrap();
        to.url(Some(Duration::from_secs(10)))
    }

    #[test]
    fn url_has_timeout() {
        for (client, expected) in [
            (
                json!({"url": "https://127.0.0.1:8443/mutate"}),
                "https://127.0.0.1:8443/mutate?timeout=10s",
            ),
            (json!({"url": "https://h"}), "https://h/?timeout=10s"),
            (json!({"url": "https://h//a/../b/"}), "https://h/b?timeout=10s"),
            (
                json!({"service": {"namespace": "n", "name": "s", "path": "/x", "port": 8443}}),
                "https://s.n.svc:8443/x?timeout=10s",
            ),
            (
                json!({"service": {"namespace": "n", "name": "s"}}),
                "https://s.n.svc:443/?timeout=10s",
            ),
        ] {
            assert_eq!(url(&client), expected);
        }
        let to = Destination::read(&json!({"url": "https://[::1]:9/"})).unwrap();
        assert_eq!(
            (to.server_name().as_str(), to.authority().as_str()),
            ("::1", "[::1]:9")
        );
        assert_eq!(to.url(None), "https://[::1]:9/");
    }

    #[test]
    fn parses_client_config() {
        assert_eq!(
            Destination::read(&json!({})).unwrap_err().to_string(),
            "webhook configuration must have either service or URL"
        );
    }
}
