//! Defaulting of volumes.

use serde_json::{Value, json};

use crate::{
    kinds::core::{image, persistent_volume_claim},
    strategy::{Tree, TreeMut},
};

/// Default mode of files from other objects: 0644.
const DEFAULT_FILE_MODE: i64 = 0o644;
/// Default lifetime of a projected token in seconds.
const DEFAULT_TOKEN_SECONDS: i64 = 60 * 60;

// upstream: pkg/apis/core/v1/defaults.go SetDefaults_Volume
pub(crate) fn set_defaults_volume(volume: &mut Value) {
    let Value::Object(fields) = &mut *volume else {
        return;
    };
    if fields.keys().all(|field| field == "name") {
        volume.set("emptyDir", json!({}));
        return;
    }
    for (field, source) in fields {
        set_defaults_volume_source(field, source);
    }
}

/// Defaults a volume source, of a pod or a PersistentVolume.
// upstream: pkg/apis/core/v1/defaults.go SetDefaults_SecretVolumeSource, SetDefaults_ConfigMapVolumeSource, SetDefaults_HostPathVolumeSource
pub(crate) fn set_defaults_volume_source(field: &str, source: &mut Value) {
    match field {
        "hostPath" => source.set_default("type", ""),
        "secret" | "configMap" => source.set_default("defaultMode", DEFAULT_FILE_MODE),
        "iscsi" => source.set_default("iscsiInterface", "default"),
        "rbd" => {
            source.set_default("pool", "rbd");
            source.set_default("user", "admin");
            source.set_default("keyring", "/etc/ceph/keyring");
        }
        "downwardAPI" => {
            source.set_default("defaultMode", DEFAULT_FILE_MODE);
            set_defaults_field_refs(source);
        }
        "azureDisk" => {
            source.set_default("cachingMode", "ReadWrite");
            source.set_default("fsType", "ext4");
            source.set_default("readOnly", false);
            source.set_default("kind", "Shared");
        }
        "projected" => {
            source.set_default("defaultMode", DEFAULT_FILE_MODE);
            for part in source.items_mut("sources") {
                if let Some(files) = part.at_mut("downwardAPI") {
                    set_defaults_field_refs(files);
                }
                if let Some(token) = part.at_mut("serviceAccountToken") {
                    token.set_default("expirationSeconds", DEFAULT_TOKEN_SECONDS);
                }
            }
        }
        "scaleIO" => {
            source.set_default("storageMode", "ThinProvisioned");
            source.set_default("fsType", "xfs");
        }
        "ephemeral" => {
            if let Some(template) = source.at_mut("volumeClaimTemplate") {
                persistent_volume_claim::set_defaults_claim_spec(template.ensure_object("spec"));
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

// upstream: pkg/apis/core/v1/defaults.go SetDefaults_ObjectFieldSelector
fn set_defaults_field_refs(files: &mut Value) {
    for file in files.items_mut("items") {
        if let Some(field) = file.at_mut("fieldRef") {
            field.set_default("apiVersion", "v1");
        }
    }
}
