//! Image pull secrets, and lookup of the credentials for a repository.
// upstream: pkg/credentialprovider/keyring.go BasicDockerKeyring
// upstream: pkg/credentialprovider/config.go DockerConfigJSON, DockerConfigEntry

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose};
use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;

use crate::runtime::PullSecret;

/// Registry credentials from the image pull secrets of a pod.
#[derive(Clone, Debug, Default)]
pub struct DockerKeyring {
    /// Credentials by registry pattern, in reverse order of the patterns: a longer path of the same host precedes a shorter one.
    credentials: Vec<(String, PullSecret)>,
}

/// Content of a secret of type `kubernetes.io/dockerconfigjson`.
#[derive(Deserialize)]
struct DockerConfigJson {
    #[serde(default)]
    auths: BTreeMap<String, DockerConfigEntry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DockerConfigEntry {
    username: String,
    password: String,
    auth: String,
}

// --- DockerKeyring ---

impl DockerKeyring {
    /// Reads secrets of the types `kubernetes.io/dockerconfigjson` and `kubernetes.io/dockercfg`. Other secrets are skipped. So are
    /// undecodable secrets and entries, which are logged: the pull of an image that needs one fails and reports it.
    pub fn from_secrets<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut credentials = Vec::new();
        for secret in secrets {
            let name = secret.metadata.name.as_deref();
            let namespace = secret.metadata.namespace.as_deref();
            // Without the error: it may quote the credentials.
            let Some(entries) = read_entries(secret) else {
                tracing::warn!(secret = name, namespace, "an image pull secret cannot be decoded");
                continue;
            };
            for (server, entry) in entries {
                match entry.decode(&server) {
                    Some(credential) => credentials.push((normalize_server(&server), credential)),
                    None => {
                        tracing::warn!(
                            secret = name,
                            namespace,
                            server,
                            "the credentials of a registry cannot be decoded"
                        );
                    }
                }
            }
        }
        // Stable: of two secrets for one registry the first one listed is tried first.
        credentials.sort_by(|(one, _), (other, _)| other.cmp(one));
        DockerKeyring { credentials }
    }

    /// Credentials for the repository of an image, in the order in which they are tried.
    // upstream: pkg/credentialprovider/keyring.go Lookup, isDefaultRegistryMatch
    pub fn lookup(&self, repository: &str) -> Vec<&PullSecret> {
        let matching = |name: &str| {
            self.credentials
                .iter()
                .filter(|(pattern, _)| matches_repository(pattern, name))
                .map(|(_, credential)| credential)
                .collect::<Vec<_>>()
        };
        let found = matching(repository);
        // Credentials of Docker Hub are stored under the name of its old index.
        if found.is_empty() && repository.starts_with("docker.io/") {
            return matching("index.docker.io");
        }
        found
    }
}

impl DockerConfigEntry {
    /// The credential for a server; `None` if `auth` cannot be decoded.
    fn decode(self, server: &str) -> Option<PullSecret> {
        let (username, password) = if self.auth.is_empty() {
            (self.username, self.password)
        } else {
            // Tools write both base64 alphabets, with and without padding.
            let text = self.auth.trim().trim_end_matches('=');
            let bytes = general_purpose::STANDARD_NO_PAD
                .decode(text)
                .or_else(|_| general_purpose::URL_SAFE_NO_PAD.decode(text))
                .ok()?;
            let text = String::from_utf8(bytes).ok()?;
            let (username, password) = text.split_once(':')?;
            (username.to_owned(), password.trim_matches('\0').to_owned())
        };
        Some(PullSecret {
            server: server.to_owned(),
            username,
            password,
            ..PullSecret::default()
        })
    }
}

/// The entries of a secret; `None` if it cannot be decoded. A secret of another type has none.
fn read_entries(secret: &Secret) -> Option<BTreeMap<String, DockerConfigEntry>> {
    let data = |name: &str| secret.data.as_ref().and_then(|data| data.get(name));
    match secret.type_.as_deref() {
        Some("kubernetes.io/dockerconfigjson") => {
            let config = data(".dockerconfigjson")?;
            let config: DockerConfigJson = kubecontroller::decode::from_slice(&config.0).ok()?;
            Some(config.auths)
        }
        Some("kubernetes.io/dockercfg") => kubecontroller::decode::from_slice(&data(".dockercfg")?.0).ok(),
        _ => Some(BTreeMap::new()),
    }
}

/// A registry without its scheme, and without the path `v1` or `v2` of its API.
// upstream: pkg/credentialprovider/keyring.go Add
fn normalize_server(server: &str) -> String {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    let rest = rest.trim_end_matches('/');
    let is_api = |text: &str| text == "v1" || text == "v2";
    match rest.split_once('/') {
        Some((host, path)) if is_api(path) => host.to_owned(),
        Some((host, path)) => {
            let (first, more) = path.split_once('/').unwrap_or((path, ""));
            if is_api(first) {
                format!("{host}/{more}")
            } else {
                rest.to_owned()
            }
        }
        None => rest.to_owned(),
    }
}

/// Whether a registry pattern matches a repository: same port, matching host, and a prefix of its path. Labels of the host may
/// contain `*`.
// upstream: pkg/credentialprovider/keyring.go URLsMatch
fn matches_repository(pattern: &str, repository: &str) -> bool {
    let split = |text: &str| {
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        let (host, port) = host.rsplit_once(':').unwrap_or((host, ""));
        (host.to_owned(), port.to_owned(), path.to_owned())
    };
    let (pattern_host, pattern_port, pattern_path) = split(pattern);
    let (host, port, path) = split(repository);
    let pattern_labels: Vec<_> = pattern_host.split('.').collect();
    let labels: Vec<_> = host.split('.').collect();
    pattern_port == port
        && path.starts_with(&pattern_path)
        && pattern_labels.len() == labels.len()
        && pattern_labels
            .iter()
            .zip(labels)
            .all(|(pattern, label)| matches_glob(pattern, label))
}

fn matches_glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches_glob(after, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;

    fn secret(kind: &str, key: &str, value: &serde_json::Value) -> Secret {
        Secret {
            type_: Some(format!("kubernetes.io/{kind}")),
            data: Some(BTreeMap::from([(
                key.to_owned(),
                ByteString(value.to_string().into_bytes()),
            )])),
            ..Secret::default()
        }
    }

    fn users(keyring: &DockerKeyring, repository: &str) -> Vec<String> {
        let found = keyring.lookup(repository);
        found
            .iter()
            .map(|credential| format!("{}:{}", credential.username, credential.password))
            .collect()
    }

    #[test]
    fn reads_dockerconfigjson_and_dockercfg() {
        let auth = general_purpose::STANDARD.encode("one:a:b");
        let config = json!({"auths": {"https://example.com/v1/": {"auth": auth}}});
        let old = json!({"other.com:5000": {"username": "two", "password": "c"}});
        let keyring = DockerKeyring::from_secrets([
            &secret("dockerconfigjson", ".dockerconfigjson", &config),
            &secret("dockercfg", ".dockercfg", &old),
            &secret("tls", ".dockercfg", &old),
        ]);
        assert_eq!(users(&keyring, "example.com/a"), ["one:a:b"]);
        assert_eq!(users(&keyring, "other.com:5000/a"), ["two:c"]);
        assert!(users(&keyring, "other.com/a").is_empty());
    }

    #[test]
    fn tries_longest_registry_path_first() {
        let entry = |name: &str| json!({"username": name, "password": ""});
        let config = json!({"auths": {
            "example.com": entry("all"), "example.com/team": entry("team"), "*.example.com": entry("sub"),
            "https://index.docker.io/v1/": entry("hub"),
        }});
        let keyring =
            DockerKeyring::from_secrets([&secret("dockerconfigjson", ".dockerconfigjson", &config)]);
        assert_eq!(users(&keyring, "example.com/team/app"), ["team:", "all:"]);
        assert_eq!(users(&keyring, "example.com/app"), ["all:"]);
        assert_eq!(users(&keyring, "eu.example.com/app"), ["sub:"]);
        assert_eq!(users(&keyring, "docker.io/library/busybox"), ["hub:"]);
        assert!(users(&keyring, "quay.io/a").is_empty());
    }

    #[test]
    fn debug_output_hides_passwords() {
        let config = json!({"auths": {"example.com": {"username": "one", "password": "hunter2"}}});
        let keyring =
            DockerKeyring::from_secrets([&secret("dockerconfigjson", ".dockerconfigjson", &config)]);
        assert!(!format!("{keyring:?}").contains("hunter2"));
    }
}
