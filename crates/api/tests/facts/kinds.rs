//! The table of kinds.

use super::{facts, names};
use k3_api::kinds::{Kind, Scope, builtin};
use serde_json::Value;

#[test]
fn kinds_are_in_discovery_order() {
    let Some(resources) = facts("discovery.json") else {
        return;
    };
    let theirs = resources.as_array().unwrap();
    assert_eq!(builtin().all().len(), theirs.len());
    for (ours, fact) in builtin().all().iter().zip(theirs) {
        compare(ours, fact);
    }
}

fn compare(ours: &Kind, fact: &Value) {
    let at = &ours.plural;
    assert_eq!(fact["group"], ours.group, "{at}");
    assert_eq!(fact["version"], ours.version, "{at}");
    assert_eq!(fact["resource"], ours.plural, "{at}");
    assert_eq!(fact["kind"], ours.kind, "{at}");
    assert_eq!(fact["singular"], ours.singular, "{at}");
    assert_eq!(
        fact["scope"] == "Namespaced",
        ours.scope == Scope::Namespaced,
        "{at}"
    );
    assert_eq!(names(&fact["verbs"]), ours.verbs, "{at}");
    assert_eq!(names(&fact["shortNames"]), ours.short_names, "{at}");
    assert_eq!(names(&fact["categories"]), ours.categories, "{at}");
    let parts = fact["subresources"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    assert_eq!(parts.len(), ours.subresources.len(), "{at}");
    for (ours, fact) in ours.subresources.iter().zip(parts) {
        assert_eq!(fact["subresource"], ours.name, "{at}");
        assert_eq!(fact["kind"], ours.kind, "{at}/{}", ours.name);
        assert_eq!(names(&fact["verbs"]), ours.verbs, "{at}/{}", ours.name);
    }
}
