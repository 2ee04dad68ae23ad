//! Where the first contents of a claim come from: the old field, which knows claims and snapshots, and the new
//! one, which knows all.

use serde_json::{Map, Value};

use crate::strategy::{Tree, TreeMut};

/// Takes out what cannot be used, and gives each of the two fields what the other says.
pub(super) fn prepare(spec: &mut Value, old: &Value) {
    let in_use = old.has("dataSource") || old.has("dataSourceRef");
    // Sources in other namespaces belong to a feature that is off.
    if !spec.at("dataSourceRef").text("namespace").is_empty() && !old.has("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    if !in_use && !spec.has("dataSourceRef") && !is_claim_or_snapshot(spec.at("dataSource")) {
        spec.remove("dataSource");
    }
    normalize(spec);
}

/// Gives the field that is missing what the other says.
pub(super) fn normalize(spec: &mut Value) {
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

fn is_claim_or_snapshot(source: &Value) -> bool {
    matches!(
        (source.text("kind"), source.text("apiGroup")),
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
    )
}
