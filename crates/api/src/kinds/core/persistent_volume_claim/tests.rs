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

fn update_messages(change: impl Fn(&mut Value, &mut Value)) -> Vec<String> {
    let mut new = claim();
    let mut old = claim();
    change(&mut new, &mut old);
    let mut errors = ErrorList::new();
    validate_claim_update(&new, &old, &mut errors);
    errors
        .iter()
        .map(|error| error.to_string().lines().next().unwrap().to_owned())
        .collect()
}

#[test]
fn requires_storage_and_access_modes() {
    let mut errors = ErrorList::new();
    let spec = json!({"accessModes": ["ReadWriteOnce", "ReadWriteOncePod"], "resources": {"requests": {"storage": "0"}}});
    validate_claim_spec(
        &spec,
        ClaimSpecValidationOptions::default(),
        &Path::new("spec"),
        &mut errors,
    );
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
fn rejects_other_template_metadata() {
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
fn normalizes_data_sources() {
    let mut spec = json!({"dataSource": {"kind": "Other", "apiGroup": "x", "name": "n"}});
    data_source::drop_and_normalize_data_sources(&mut spec, &Value::Null);
    assert_eq!(spec, json!({}));
    let mut spec = json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "n"}});
    data_source::drop_and_normalize_data_sources(&mut spec, &Value::Null);
    assert_eq!(spec.at("dataSourceRef"), spec.at("dataSource"));
    let mut spec =
        json!({"dataSourceRef": {"kind": "Other", "apiGroup": "x", "name": "n", "namespace": "m"}});
    data_source::drop_and_normalize_data_sources(&mut spec, &Value::Null);
    assert_eq!(spec, json!({}));
}

#[test]
fn volume_and_class_are_set_once() {
    assert!(update_messages(|new, _| new.ensure_object("spec").set("volumeName", "v")).is_empty());
    assert!(update_messages(|new, _| new.ensure_object("spec").set("storageClassName", "fast")).is_empty());
    let rejection = "spec: Forbidden: spec is immutable after creation except resources.requests and \
                   volumeAttributesClassName for bound claims";
    let again = update_messages(|new, old| {
        new.ensure_object("spec").set("volumeName", "w");
        old.ensure_object("spec").set("volumeName", "v");
    });
    assert_eq!(again, [rejection]);
}

#[test]
fn bound_claim_grows_and_shrinks_to_its_capacity() {
    let resized = |to: &'static str| {
        update_messages(move |new, old| {
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
fn equal_quantities_are_no_change() {
    let same = update_messages(|new, _| {
        new.ensure_object("spec")
            .set("resources", json!({"requests": {"storage": "2147483648"}}));
    });
    assert!(same.is_empty());
}

#[test]
fn row_shows_the_bound_volume() {
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
