//! Secrets of registries, and which one is for which image.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose};
use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;

use crate::runtime::PullSecret;

/// The secrets that a pod brings, by the registry they are for.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    /// Longer and more special names first.
    secrets: Vec<(String, PullSecret)>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    username: String,
    password: String,
    auth: String,
}

// --- Keyring ---

impl Keyring {
    /// Of secrets of the types `kubernetes.io/dockerconfigjson` and `kubernetes.io/dockercfg`. Others, and what cannot be read
    /// in them, are left out: an image that needs it says so.
    pub fn of<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut found = Vec::new();
        for secret in secrets {
            for (server, entry) in entries(secret) {
                if let Some(key) = entry.secret(&server) {
                    found.push((location(&server), key));
                }
            }
        }
        // Stable: of two secrets for one registry the first one named is tried first.
        found.sort_by(|(one, _), (other, _)| other.cmp(one));
        Keyring { secrets: found }
    }

    /// Those for the repository of an image, in the order in which they are tried.
    pub fn for_repository(&self, repository: &str) -> Vec<&PullSecret> {
        let fitting = |name: &str| {
            let pairs = self.secrets.iter();
            pairs
                .filter(|(pattern, _)| fits(pattern, name))
                .map(|(_, key)| key)
                .collect::<Vec<_>>()
        };
        let found = fitting(repository);
        if found.is_empty() && repository.starts_with("docker.io/") {
            return fitting("index.docker.io");
        }
        found
    }
}

impl Entry {
    fn secret(self, server: &str) -> Option<PullSecret> {
        let (username, password) = if self.auth.is_empty() {
            (self.username, self.password)
        } else {
            // Both alphabets and missing ends are seen in the wild.
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

fn entries(secret: &Secret) -> BTreeMap<String, Entry> {
    let data = |name: &str| secret.data.as_ref().and_then(|data| data.get(name));
    let read = match secret.type_.as_deref() {
        Some("kubernetes.io/dockerconfigjson") => data(".dockerconfigjson")
            .and_then(|bytes| kubecontroller::decode::from_slice::<Config>(&bytes.0).ok())
            .map(|config| config.auths),
        Some("kubernetes.io/dockercfg") => {
            data(".dockercfg").and_then(|bytes| kubecontroller::decode::from_slice(&bytes.0).ok())
        }
        _ => None,
    };
    read.unwrap_or_default()
}

/// A registry without its scheme and the path of its API.
fn location(server: &str) -> String {
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

/// Whether a registry, in which parts of the host may be `*`, is that of a repository: the same host, the same port, and a
/// beginning of its path.
fn fits(pattern: &str, repository: &str) -> bool {
    let split = |text: &str| {
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        let (host, port) = host.rsplit_once(':').unwrap_or((host, ""));
        (host.to_owned(), port.to_owned(), path.to_owned())
    };
    let wanted = split(pattern);
    let there = split(repository);
    let (wanted_parts, parts): (Vec<_>, Vec<_>) =
        (wanted.0.split('.').collect(), there.0.split('.').collect());
    wanted.1 == there.1
        && there.2.starts_with(&wanted.2)
        && wanted_parts.len() == parts.len()
        && wanted_parts
            .iter()
            .zip(parts)
            .all(|(pattern, part)| glob(pattern, part))
}

fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && glob(after, &rest[at..]))
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

    fn users(keyring: &Keyring, repository: &str) -> Vec<String> {
        let found = keyring.for_repository(repository);
        found
            .iter()
            .map(|key| format!("{}:{}", key.username, key.password))
            .collect()
    }

    #[test]
    fn both_kinds_of_secrets_are_read() {
        let auth = general_purpose::STANDARD.encode("one:a:b");
        let config = json!({"auths": {"https://example.com/v1/": {"auth": auth}}});
        let old = json!({"other.com:5000": {"username": "two", "password": "c"}});
        let keyring = Keyring::of([
            &secret("dockerconfigjson", ".dockerconfigjson", &config),
            &secret("dockercfg", ".dockercfg", &old),
            &secret("tls", ".dockercfg", &old),
        ]);
        assert_eq!(users(&keyring, "example.com/a"), ["one:a:b"]);
        assert_eq!(users(&keyring, "other.com:5000/a"), ["two:c"]);
        assert!(users(&keyring, "other.com/a").is_empty());
    }

    #[test]
    fn the_longest_name_of_a_registry_comes_first() {
        let entry = |name: &str| json!({"username": name, "password": ""});
        let config = json!({"auths": {
            "example.com": entry("all"), "example.com/team": entry("team"), "*.example.com": entry("sub"),
            "https://index.docker.io/v1/": entry("hub"),
        }});
        let keyring = Keyring::of([&secret("dockerconfigjson", ".dockerconfigjson", &config)]);
        assert_eq!(users(&keyring, "example.com/team/app"), ["team:", "all:"]);
        assert_eq!(users(&keyring, "example.com/app"), ["all:"]);
        assert_eq!(users(&keyring, "eu.example.com/app"), ["sub:"]);
        assert_eq!(users(&keyring, "docker.io/library/busybox"), ["hub:"]);
        assert!(users(&keyring, "quay.io/a").is_empty());
    }

    #[test]
    fn passwords_are_not_shown() {
        let config = json!({"auths": {"example.com": {"username": "one", "password": "hunter2"}}});
        let keyring = Keyring::of([&secret("dockerconfigjson", ".dockerconfigjson", &config)]);
        assert!(!format!("{keyring:?}").contains("hunter2"));
    }
}
