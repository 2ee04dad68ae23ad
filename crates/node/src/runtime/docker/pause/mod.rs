//! The pause image, built in: the machine needs no registry for it.

mod program;
mod tar;

use ring::digest::{SHA256, digest};
use serde_json::json;

use self::tar::TarBuilder;

/// Image name. A change of the program needs another tag.
pub(super) const IMAGE: &str = "k3.io/pause:1";

/// Returns the image as a `docker load` archive for this CPU architecture; `None` if unsupported.
pub(super) fn archive() -> Option<Vec<u8>> {
    archive_for(std::env::consts::ARCH)
}

fn archive_for(processor: &str) -> Option<Vec<u8>> {
    let architecture = match processor {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        _ => return None,
    };
    let mut layer = TarBuilder::new();
    layer.add("pause", 0o755, &program::elf(processor)?);
    let layer = layer.finish();
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "created": "2026-01-01T00:00:00Z",
        "config": { "Entrypoint": ["/pause"], "WorkingDir": "/" },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", hex_sum(&layer))] },
        "history": [{ "created": "2026-01-01T00:00:00Z", "created_by": "k3" }],
    })
    .to_string();
    let config_name = format!("{}.json", hex_sum(config.as_bytes()));
    let manifest =
        json!([{ "Config": config_name, "RepoTags": [IMAGE], "Layers": ["layer.tar"] }]).to_string();
    let mut archive = TarBuilder::new();
    archive.add("layer.tar", 0o644, &layer);
    archive.add(&config_name, 0o644, config.as_bytes());
    archive.add("manifest.json", 0o644, manifest.as_bytes());
    Some(archive.finish())
}

fn hex_sum(bytes: &[u8]) -> String {
    use std::fmt::Write;
    digest(&SHA256, bytes)
        .as_ref()
        .iter()
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_images_for_supported_architectures() {
        assert!(archive_for("x86_64").is_some_and(|archive| archive.len() % 512 == 0));
        assert!(archive_for("aarch64").is_some());
        assert_eq!(archive_for("s390x"), None);
    }

    #[test]
    fn image_is_reproducible() {
        assert_eq!(archive_for("x86_64"), archive_for("x86_64"));
    }
}
