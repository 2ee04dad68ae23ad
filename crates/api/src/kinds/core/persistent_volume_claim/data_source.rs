//! dataSource and dataSourceRef of a claim. dataSource allows only claims and snapshots, dataSourceRef any kind (KEP-1495).

use serde_json::{Map, Value};

use crate::strategy::{Tree, TreeMut};

/// Drops unusable sources, and copies each of the two fields to the other.
// upstream: pkg/api/persistentvolumeclaim/util.go DropDisabledFields, EnforceDataSourceBackwardsCompatibility
pub(super) fn drop_and_normalize_data_sources(spec: &mut Value, old: &Value) {
    let in_use = old.has("dataSource") || old.has("dataSourceRef");
    // Cross-namespace sources belong to a disabled feature gate.
    if !spec.at("dataSourceRef").text("namespace").is_empty() && !old.has("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    if !in_use && !spec.has("dataSourceRef") && !is_claim_or_snapshot(spec.at("dataSource")) {
        spec.remove("dataSource");
    }
    normalize_data_sources(spec);
}

/// Copies the field that is set to the one that is not.
// upstream: pkg/api/persistentvolumeclaim/util.go NormalizeDataSources
pub(super) fn normalize_data_sources(spec: &mut Value) {
    let (from, to) = match (spec.has("dataSource"), spec.has("dataSourceRef")) {
        (true, false) => ("dataSource", "dataSourceRef"),
        (false, true) if spec.at("dataSourceRef").text("namespace").is_empty() => {
            ("dataSourceRef", "dataSource")
        }
        _ => return,
    };
    let mut source = Value::Object(Map::new());
    for name in ["apiGroup", "kind", "name"] {
        source.copy_from(name, spec.at(from));
    }
    spec.set(to, source);
}

// upstream: pkg/api/persistentvolumeclaim/util.go dataSourceIsPvcOrSnapshot
fn is_claim_or_snapshot(source: &Value) -> bool {
    matches!(
        (source.text("kind"), source.text("apiGroup")),
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
    )
}
