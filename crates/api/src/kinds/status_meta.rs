//! Metadata that a write of the status cannot change.

use serde_json::Value;

use crate::strategy::TreeMut;

/// Gives an object its old metadata back, but for who manages which fields.
pub(crate) fn keep(new: &mut Value, old: &Value) {
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
    fn labels_stay_and_managers_change() {
        let old = json!({"metadata": {"labels": {"a": "b"}, "managedFields": [1]}});
        let mut new = json!({"metadata": {"annotations": {"c": "d"}, "managedFields": [2]}});
        keep(&mut new, &old);
        assert_eq!(
            new,
            json!({"metadata": {"labels": {"a": "b"}, "managedFields": [2]}})
        );
    }
}
