//! The default class of a kind, marked by an annotation (StorageClass, IngressClass).

use std::cmp::Reverse;

use k3_api::strategy::Tree;
use serde_json::Value;

use super::{derived_cache::DerivedCache, resource};
use crate::cache::WatchCaches;

/// The default class of a kind, remembered.
#[derive(Default)]
pub(super) struct DefaultClass(DerivedCache<Option<String>>);

impl DefaultClass {
    /// The name of the class that one of the annotations makes the default.
    pub(super) fn name(
        &self,
        group: &str,
        plural: &str,
        annotations: &[&str],
        caches: &WatchCaches,
    ) -> Option<String> {
        let classes = resource(group, plural, caches);
        self.0.get(&classes, |classes| newest(classes, annotations))
    }
}

/// Of several defaults the newest holds; of those made at the same time, the first by name.
// upstream: pkg/volume/util/storageclass.go GetDefaultClass; the newest default wins, then the first by name
fn newest(classes: &[Value], annotations: &[&str]) -> Option<String> {
    let is_default = |class: &Value| {
        let said = class.at("metadata").at("annotations");
        annotations
            .iter()
            .any(|annotation| said.text(annotation) == "true")
    };
    let metadata = classes
        .iter()
        .filter(|class| is_default(class))
        .map(|class| class.at("metadata"));
    metadata
        .min_by_key(|metadata| (Reverse(metadata.text("creationTimestamp")), metadata.text("name")))
        .map(|metadata| metadata.text("name").to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(name: &str, second: u32, said: &str) -> Value {
        let time = format!("2026-01-01T00:00:0{second}Z");
        json!({"metadata": {"name": name, "creationTimestamp": time, "annotations": {"mark": said}}})
    }

    #[test]
    fn picks_newest_default_class() {
        let classes = [
            class("old", 1, "true"),
            class("b", 2, "true"),
            class("a", 2, "true"),
            class("newest", 3, "false"),
        ];
        assert_eq!(newest(&classes, &["other", "mark"]).as_deref(), Some("a"));
        assert_eq!(newest(&classes, &["other"]), None);
    }
}
