use serde_json::{Value, json};

use super::*;

fn claim() -> Value {
    let mut claim = json!({
        "metadata": {"name": "c", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
    });
    default_claim(&mut claim);
    claim
}

fn changes(change: impl Fn(&mut Value, &mut Value)) -> Vec<String> {
    let mut new = claim();
    let mut old = claim();
    change(&mut new, &mut old);
    let mut errors = ErrorList::new();
    validate_change(&new, &old, &mut errors);
    errors
        .iter()
        .map(|error| error.to_string().lines().next().unwrap().to_owned())
        .collect()
}

#[test]
fn a_claim_asks_for_some_storage() {
    let mut errors = ErrorList::new();
    let spec = json!({"accessModes": ["ReadWriteOnce", "ReadWriteOncePod"], "resources": {"requests": {"storage": "0"}}});
    validate_claim_spec(&spec, Leniency::default(), &Path::new("spec"), &mut errors);
    let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
        ]
    );
}

#[test]
fn a_template_has_labels_and_annotations_only() {
    let mut errors = ErrorList::new();
    let template =
        json!({"metadata": {"name": "x", "uid": "u", "labels": {"a": "b"}}, "spec": claim().at("spec")});
    validate_claim_template(&template, &Path::new("t"), &mut errors);
    let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "t.metadata.name: Forbidden: cannot be set",
            "t.metadata.uID: Forbidden: cannot be set",
        ]
    );
}

#[test]
fn the_old_field_takes_claims_and_snapshots_and_both_say_the_same() {
    let mut spec = json!({"dataSource": {"kind": "Other", "apiGroup": "x", "name": "n"}});
    data_source::prepare(&mut spec, &Value::Null);
    assert_eq!(spec, json!({}));
    let mut spec = json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "n"}});
    data_source::prepare(&mut spec, &Value::Null);
    assert_eq!(spec.at("dataSourceRef"), spec.at("dataSource"));
    let mut spec =
        json!({"dataSourceRef": {"kind": "Other", "apiGroup": "x", "name": "n", "namespace": "m"}});
    data_source::prepare(&mut spec, &Value::Null);
    assert_eq!(spec, json!({}));
}

#[test]
fn a_claim_gets_a_volume_and_a_class_once() {
    assert!(changes(|new, _| new.ensure_object("spec").set("volumeName", "v")).is_empty());
    assert!(changes(|new, _| new.ensure_object("spec").set("storageClassName", "fast")).is_empty());
    let refused = "spec: Forbidden: spec is immutable after creation except resources.requests and \
                   volumeAttributesClassName for bound claims";
    let again = changes(|new, old| {
        new.ensure_object("spec").set("volumeName", "w");
        old.ensure_object("spec").set("volumeName", "v");
    });
    assert_eq!(again, [refused]);
}

#[test]
fn a_bound_claim_grows_and_shrinks_to_what_it_has() {
    let resized = |to: &'static str| {
        changes(move |new, old| {
            for claim in [&mut *new, old] {
                claim.set(
                    "status",
                    json!({"phase": "Bound", "capacity": {"storage": "1Gi"}}),
                );
            }
            new.ensure_object("spec")
                .set("resources", json!({"requests": {"storage": to}}));
        })
    };
    assert!(resized("3Gi").is_empty());
    assert!(resized("1536Mi").is_empty());
    assert_eq!(
        resized("1Gi"),
        ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
    );
}

#[test]
fn the_same_amount_in_other_words_is_no_change() {
    let same = changes(|new, _| {
        new.ensure_object("spec")
            .set("resources", json!({"requests": {"storage": "2147483648"}}));
    });
    assert!(same.is_empty());
}

#[test]
fn a_row_shows_what_is_bound() {
    let now = Time::parse("2026-01-01T00:05:00Z").unwrap();
    let mut claim = claim();
    let cells = |claim: &Value| Value::Array(PersistentVolumeClaim.row(claim, now).cells);
    assert_eq!(
        cells(&claim),
        json!(["c", "Pending", "", "", "", "", "<unset>", "5m", "Filesystem"])
    );
    claim.ensure_object("spec").set("volumeName", "v");
    claim.set("status", json!({"phase": "Bound", "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "capacity": {"storage": "2Gi"}}));
    assert_eq!(
        cells(&claim),
        json!([
            "c",
            "Bound",
            "v",
            "2Gi",
            "RWO,RWX",
            "",
            "<unset>",
            "5m",
            "Filesystem"
        ])
    );
    assert_eq!(PersistentVolumeClaim.columns().len(), 9);
}
