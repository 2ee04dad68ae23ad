//! Warnings of files of one volume that overlap.

use serde_json::Value;

use crate::{go, strategy::Tree};

/// Each file is compared with at most this many before it; others give no warning.
const MAX_COMPARED: usize = 256;

/// Warnings per volume. Response headers have room for fewer.
const MAX_OVERLAPS: usize = 256;

/// A file and its source.
// upstream: pkg/api/pod/warnings.go pathAndSource
struct VirtualPath {
    path: String,
    source: String,
}

// upstream: pkg/api/pod/warnings.go warningsForOverlappingVirtualPaths
pub(super) fn warn_of_overlapping_paths(volumes: &[Value], warnings: &mut Vec<String>) {
    for volume in volumes {
        for kind in ["configMap", "secret", "downwardAPI"] {
            let source = volume.at(kind);
            for overlap in check_for_overlap(item_paths(source, "")) {
                let described = match kind {
                    "configMap" => format!("ConfigMap {}", go::quote(source.text("name"))),
                    "secret" => format!("Secret {}", go::quote(source.text("secretName"))),
                    _ => "DownwardAPI".to_owned(),
                };
                warnings.push(warning(volume, &described, &overlap));
            }
        }
        let mut files = Vec::new();
        for source in volume.at("projected").items("sources") {
            if source.as_object().is_none_or(serde_json::Map::is_empty) {
                let name = go::quote(volume.text("name"));
                warnings.push(format!("volume {name} (Projected) has no sources provided"));
            }
            files.extend(projected_paths(source));
        }
        for overlap in check_for_overlap(files) {
            warnings.push(warning(volume, "Projected", &overlap));
        }
    }
}

fn warning(volume: &Value, described: &str, overlap: &str) -> String {
    let name = go::quote(volume.text("name"));
    format!("volume {name} ({described}): overlapping paths: {overlap}")
}

fn item_paths(source: &Value, described: &str) -> Vec<VirtualPath> {
    let file = |item: &Value| VirtualPath::new(item.text("path"), described);
    source.items("items").iter().map(file).collect()
}

fn projected_paths(source: &Value) -> Vec<VirtualPath> {
    let named = |kind: &str, name: &str| format!("{kind} {}", go::quote(name));
    for (field, kind) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if source.at(field).has("items") {
            return item_paths(source.at(field), &named(kind, source.at(field).text("name")));
        }
    }
    if source.at("downwardAPI").has("items") {
        return item_paths(source.at("downwardAPI"), "DownwardAPI");
    }
    if source.has("serviceAccountToken") {
        let path = source.at("serviceAccountToken").text("path");
        return vec![VirtualPath::new(path, "ServiceAccountToken")];
    }
    if source.has("clusterTrustBundle") {
        let bundle = source.at("clusterTrustBundle");
        let name = bundle
            .at("name")
            .as_str()
            .unwrap_or_else(|| bundle.text("signerName"));
        return vec![VirtualPath::new(
            bundle.text("path"),
            &named("ClusterTrustBundle", name),
        )];
    }
    let certificate = source.at("podCertificate");
    [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ]
    .into_iter()
    .filter(|(field, _)| !certificate.text(field).is_empty())
    .map(|(field, described)| VirtualPath::new(certificate.text(field), described))
    .collect()
}

/// Each file that overlaps with one before it, and that one.
// upstream: pkg/api/pod/warnings.go checkForOverlap
fn check_for_overlap(files: Vec<VirtualPath>) -> Vec<String> {
    let mut messages = Vec::new();
    let mut before: Vec<VirtualPath> = Vec::new();
    for file in files {
        let others = before.iter().filter(|other| file.overlaps(other));
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

impl VirtualPath {
    fn new(path: &str, source: &str) -> Self {
        VirtualPath {
            path: path.trim_end_matches('/').to_owned(),
            source: source.to_owned(),
        }
    }

    /// Whether they are the same file, or one is a directory of the other.
    fn overlaps(&self, other: &VirtualPath) -> bool {
        let below = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'));
        !self.path.is_empty()
            && !other.path.is_empty()
            && (self.path == other.path || below(&self.path, &other.path) || below(&other.path, &self.path))
    }
}

impl std::fmt::Display for VirtualPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&go::quote(&self.path))?;
        if self.source.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", self.source)
    }
}
