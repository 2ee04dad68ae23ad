//! What is filled into a volume that was left open.

use serde_json::{Value, json};

use crate::{
    kinds::core::{image, persistent_volume_claim},
    strategy::{Tree, TreeMut},
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
        "hostPath" => source.set_default("type", ""),
        "secret" | "configMap" => source.set_default("defaultMode", FILE_MODE),
        "iscsi" => source.set_default("iscsiInterface", "default"),
        "rbd" => {
            source.set_default("pool", "rbd");
            source.set_default("user", "admin");
            source.set_default("keyring", "/etc/ceph/keyring");
        }
        "downwardAPI" => {
            source.set_default("defaultMode", FILE_MODE);
            default_field_refs(source);
        }
        "azureDisk" => {
            source.set_default("cachingMode", "ReadWrite");
            source.set_default("fsType", "ext4");
            source.set_default("readOnly", false);
            source.set_default("kind", "Shared");
        }
        "projected" => {
            source.set_default("defaultMode", FILE_MODE);
            for part in source.items_mut("sources") {
                if let Some(files) = part.at_mut("downwardAPI") {
                    default_field_refs(files);
                }
                if let Some(token) = part.at_mut("serviceAccountToken") {
                    token.set_default("expirationSeconds", TOKEN_SECONDS);
                }
            }
        }
        "scaleIO" => {
            source.set_default("storageMode", "ThinProvisioned");
            source.set_default("fsType", "xfs");
        }
        "ephemeral" => {
            if let Some(template) = source.at_mut("volumeClaimTemplate") {
                persistent_volume_claim::default_spec(template.ensure_object("spec"));
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
            field.set_default("apiVersion", "v1");
        }
    }
}
