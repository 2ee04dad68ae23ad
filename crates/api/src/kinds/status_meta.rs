//! Metadata that a write of the status cannot change.

use serde_json::Value;

use crate::strategy::TreeMut;

/// Restores the old metadata, except managedFields.
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go ResetObjectMetaForStatus
pub(crate) fn reset_object_meta_for_status(new: &mut Value, old: &Value) {
    let before = old.get("metadata").unwrap_or(&Value::Null);
    let metadata = new.ensure_object("metadata");
    for name in [
        "deletionTimestamp",
        "generation",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    ] {
        metadata.copy_from(name, before);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn restores_labels_but_not_managed_fields() {
        let old = json!({"metadata": {"labels": {"a": "b"}, "managedFields": [1]}});
        let mut new = json!({"metadata": {"annotations": {"c": "d"}, "managedFields": [2]}});
        reset_object_meta_for_status(&mut new, &old);
        assert_eq!(
            new,
            json!({"metadata": {"labels": {"a": "b"}, "managedFields": [2]}})
        );
    }
}
