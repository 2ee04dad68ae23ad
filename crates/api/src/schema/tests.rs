use super::*;
use crate::type_schema::{ListKind, Shape, Struct as _, TypeSchema};
use serde_json::{Value, json};

fn of(package: &str, name: &str) -> StructRef {
    schema().get(package, "v1", name).unwrap()
}

fn field(package: &str, name: &str, field: &str) -> &'static Field {
    of(package, name).get().named(field).unwrap()
}

#[test]
fn a_kind_is_found_by_group_version_and_kind() {
    let pod = schema().kind("", "v1", "Pod").unwrap().get();
    assert_eq!((pod.package, pod.name, pod.is_kind), ("core", "Pod", true));
    let role = schema()
        .kind("rbac.authorization.k8s.io", "v1", "Role")
        .unwrap()
        .get();
    assert_eq!(role.go_name(), "v1.Role");
    assert!(schema().kind("", "v1", "PodSpec").is_none(), "not a kind");
    assert!(schema().kind("apps", "v2", "Deployment").is_none());
}

#[test]
fn kinds_of_every_group_are_found_in_each() {
    for group in ["", "apps", "example.com"] {
        assert_eq!(
            schema().kind(group, "v1", "DeleteOptions").unwrap().get().package,
            "meta"
        );
    }
}

#[test]
fn inline_structs_lend_their_fields() {
    let volume = of("core", "Volume").get();
    assert_eq!(volume.named("hostPath").unwrap().number, 1);
    assert_eq!(volume.numbered(2).unwrap().name, "");
    assert!(volume.named("").is_none());
    let rule = of("admissionregistration", "NamedRuleWithOperations").get();
    assert!(rule.named("apiGroups").is_some(), "two levels deep");
}

#[test]
fn merges_as_the_table_declares() {
    let Shape::List { kind, .. } = field("core", "Container", "ports").shape() else {
        panic!()
    };
    assert_eq!(
        kind,
        ListKind::Map(&["containerPort".to_owned(), "protocol".to_owned()])
    );
    let port = of("core", "ContainerPort");
    assert_eq!(port.default_of("protocol"), Some(&json!("TCP")));
    let spec = of("core", "PodSpec");
    let patch = spec.patch("volumes");
    assert_eq!(
        (patch.merge, patch.retain_keys, patch.merge_key),
        (true, true, Some("name"))
    );
    let Shape::Map { atomic, .. } = spec.field("nodeSelector").unwrap().shape() else {
        panic!()
    };
    assert!(atomic);
    assert!(of("core", "ObjectReference").is_atomic());
    let Shape::Struct(claim) = field("core", "PersistentVolumeSpec", "claimRef").shape() else {
        panic!()
    };
    assert!(!claim.is_atomic(), "granular here, though its type is atomic");
}

#[test]
fn zero_values_show_what_is_always_written() {
    let container = of("core", "Container").get().zero();
    assert_eq!(Value::Object(container), json!({"name": "", "resources": {}}));
    let role = of("rbac", "ClusterRole").get().zero();
    assert_eq!(Value::Object(role), json!({"metadata": {}, "rules": null}));
}

#[test]
fn every_struct_has_unique_names_and_numbers() {
    for found in schema().structs() {
        let found = found.get();
        assert!(
            found.names.len() <= 128,
            "decoding notes in 128 bits which it has seen: {}",
            found.name
        );
        for pair in found.names.windows(2) {
            assert_ne!(pair[0].0, pair[1].0, "{}", found.name);
        }
        let numbers: Vec<u32> = found
            .fields
            .iter()
            .map(|f| f.number)
            .filter(|n| *n != 0)
            .collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{}", found.name);
    }
}

/// The type of a list's items, or of a map's values.
fn item_struct(ty: &Type) -> Option<StructRef> {
    match ty {
        Type::List(items) => match **items {
            Type::Struct(found) => Some(found),
            _ => None,
        },
        _ => None,
    }
}

#[test]
fn keys_of_lists_are_fields_of_their_items() {
    let mut keyed = 0;
    for found in schema().structs() {
        for field in &found.get().fields {
            let mut keys: Vec<&str> = Vec::new();
            if let ListMergeKind::Keys(names) = &field.listing {
                keys.extend(names.iter().map(String::as_str));
            }
            keys.extend(field.patch.merge_key);
            keyed += keys.len();
            for key in keys {
                let items = item_struct(&field.ty);
                let item = items
                    .unwrap_or_else(|| panic!("{}.{}: no list of objects", found.get().name, field.name));
                assert!(
                    item.get().named(key).is_some(),
                    "{}.{}: items have no field {key}",
                    found.get().name,
                    field.name
                );
            }
        }
    }
    assert!(keyed > 100, "{keyed}");
}

#[test]
fn defaults_are_values_of_their_fields() {
    for found in schema().structs() {
        for field in &found.get().fields {
            let Some(default) = &field.default else { continue };
            let text = default.to_string();
            let decoded = crate::decode::json_type(text.as_bytes(), &field.ty);
            let decoded =
                decoded.unwrap_or_else(|error| panic!("{}.{}: {error:?}", found.get().name, field.name));
            assert_eq!(decoded.value, *default, "{}.{}", found.get().name, field.name);
        }
    }
}

/// Of two types of one name the later one would hide the other.
#[test]
fn types_have_different_names() {
    let mut names: Vec<_> = schema()
        .structs()
        .map(|found| (found.get().package, found.get().version, found.get().name))
        .collect();
    names.sort_unstable();
    for pair in names.windows(2) {
        assert_ne!(pair[0], pair[1]);
    }
}

/// A file that is not listed would be missed only by requests for its types.
#[test]
fn every_file_of_types_is_read() {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema/types")).unwrap();
    let mut count = 0;
    for file in files {
        let path = file.unwrap().path();
        let (package, version) = path
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .split_once('_')
            .unwrap();
        assert!(
            schema().group_of(package, version).is_some(),
            "{}",
            path.display()
        );
        count += 1;
    }
    assert!(count > 20, "{count}");
}
