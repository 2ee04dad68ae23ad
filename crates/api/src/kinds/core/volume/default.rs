//! What is filled into a volume that was left open.

use serde_json::{Value, json};

use crate::{
    kinds::core::{image, persistent_volume_claim},
    rules::{Tree, TreeMut},
};

/// Read and write for the owner, read for all others: 0644.
const FILE_MODE: i64 = 0o644;
/// How long a token for a pod lives, in seconds.
const TOKEN_SECONDS: i64 = 60 * 60;

/// Fills in what was left out of a volume of a pod.
pub(crate) fn default_volume(volume: &mut Value) {
    let Value::Object(fields) = &mut *volume else {
        return;
    };
    if fields.keys().all(|field| field == "name") {
        volume.set("emptyDir", json!({}));
        return;
    }
    for (field, source) in fields {
        default_source(field, source);
    }
}

/// Fills in what was left out of the source of a volume, in a pod or a persistent volume.
pub(crate) fn default_source(field: &str, source: &mut Value) {
    match field {
        "hostPath" => source.fill("type", ""),
        "secret" | "configMap" => source.fill("defaultMode", FILE_MODE),
        "iscsi" => source.fill("iscsiInterface", "default"),
        "rbd" => {
            source.fill("pool", "rbd");
            source.fill("user", "admin");
            source.fill("keyring", "/etc/ceph/keyring");
        }
        "downwardAPI" => {
            source.fill("defaultMode", FILE_MODE);
            default_field_refs(source);
        }
        "azureDisk" => {
            source.fill("cachingMode", "ReadWrite");
            source.fill("fsType", "ext4");
            source.fill("readOnly", false);
            source.fill("kind", "Shared");
        }
        "projected" => {
            source.fill("defaultMode", FILE_MODE);
            for part in source.items_mut("sources") {
                if let Some(files) = part.at_mut("downwardAPI") {
                    default_field_refs(files);
                }
                if let Some(token) = part.at_mut("serviceAccountToken") {
                    token.fill("expirationSeconds", TOKEN_SECONDS);
                }
            }
        }
        "scaleIO" => {
            source.fill("storageMode", "ThinProvisioned");
            source.fill("fsType", "xfs");
        }
        "ephemeral" => {
            if let Some(template) = source.at_mut("volumeClaimTemplate") {
                persistent_volume_claim::default_spec(template.make("spec"));
            }
        }
        "image" if !source.has("pullPolicy") => {
            let policy = match image::tag(source.text("reference")) {
                Some("latest") => "Always",
                _ => "IfNotPresent",
            };
            source.set("pullPolicy", policy);
        }
        _ => {}
    }
}

fn default_field_refs(files: &mut Value) {
    for file in files.items_mut("items") {
        if let Some(field) = file.at_mut("fieldRef") {
            field.fill("apiVersion", "v1");
        }
    }
}
