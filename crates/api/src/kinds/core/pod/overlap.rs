//! Files of one volume that stand in each other's way.

use serde_json::Value;

use crate::{go, rules::Tree};

/// Files are compared with so many before them: the rest goes without a warning.
const MAX_COMPARED: usize = 256;

/// Warnings of one volume. The headers of an answer have room for fewer.
const MAX_OVERLAPS: usize = 256;

/// A file, and where it comes from.
struct File {
    path: String,
    source: String,
}

/// What the user should be told about the files of volumes.
pub(super) fn warnings(volumes: &[Value], warnings: &mut Vec<String>) {
    for volume in volumes {
        for kind in ["configMap", "secret", "downwardAPI"] {
            let source = volume.at(kind);
            for overlap in overlaps(items(source, "")) {
                let described = match kind {
                    "configMap" => format!("ConfigMap {}", go::quote(source.text("name"))),
                    "secret" => format!("Secret {}", go::quote(source.text("secretName"))),
                    _ => "DownwardAPI".to_owned(),
                };
                warnings.push(messages(volume, &described, &overlap));
            }
        }
        let mut files = Vec::new();
        for source in volume.at("projected").items("sources") {
            if source.as_object().is_none_or(serde_json::Map::is_empty) {
                let name = go::quote(volume.text("name"));
                warnings.push(format!("volume {name} (Projected) has no sources provided"));
            }
            files.extend(projected(source));
        }
        for overlap in overlaps(files) {
            warnings.push(messages(volume, "Projected", &overlap));
        }
    }
}

fn messages(volume: &Value, described: &str, overlap: &str) -> String {
    let name = go::quote(volume.text("name"));
    format!("volume {name} ({described}): overlapping paths: {overlap}")
}

fn items(source: &Value, described: &str) -> Vec<File> {
    let file = |item: &Value| File::new(item.text("path"), described);
    source.items("items").iter().map(file).collect()
}

fn projected(source: &Value) -> Vec<File> {
    let named = |kind: &str, name: &str| format!("{kind} {}", go::quote(name));
    for (field, kind) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if source.at(field).has("items") {
            return items(source.at(field), &named(kind, source.at(field).text("name")));
        }
    }
    if source.at("downwardAPI").has("items") {
        return items(source.at("downwardAPI"), "DownwardAPI");
    }
    if source.has("serviceAccountToken") {
        let path = source.at("serviceAccountToken").text("path");
        return vec![File::new(path, "ServiceAccountToken")];
    }
    if source.has("clusterTrustBundle") {
        let bundle = source.at("clusterTrustBundle");
        let name = bundle
            .at("name")
            .as_str()
            .unwrap_or_else(|| bundle.text("signerName"));
        return vec![File::new(bundle.text("path"), &named("ClusterTrustBundle", name))];
    }
    let certificate = source.at("podCertificate");
    [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ]
    .into_iter()
    .filter(|(field, _)| !certificate.text(field).is_empty())
    .map(|(field, described)| File::new(certificate.text(field), described))
    .collect()
}

/// Each file that collides with one before it, and that one.
fn overlaps(files: Vec<File>) -> Vec<String> {
    let mut messages = Vec::new();
    let mut before: Vec<File> = Vec::new();
    for file in files {
        let others = before.iter().filter(|other| file.collides(other));
        messages.extend(others.map(|other| format!("{file} with {other}")));
        if messages.len() >= MAX_OVERLAPS {
            break;
        }
        if before.len() < MAX_COMPARED {
            before.push(file);
        }
    }
    messages
}

impl File {
    fn new(path: &str, source: &str) -> Self {
        File {
            path: path.trim_end_matches('/').to_owned(),
            source: source.to_owned(),
        }
    }

    /// Whether they are the same file, or one would be a directory of the other.
    fn collides(&self, other: &File) -> bool {
        let below = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'));
        !self.path.is_empty()
            && !other.path.is_empty()
            && (self.path == other.path || below(&self.path, &other.path) || below(&other.path, &self.path))
    }
}

impl std::fmt::Display for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&go::quote(&self.path))?;
        if self.source.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", self.source)
    }
}
