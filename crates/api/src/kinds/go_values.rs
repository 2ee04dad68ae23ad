//! Values in error messages as Go prints them: either the fields on the wire in the order of the type, or every field under
//! its Go name, because upstream marshals internal types, which have no JSON tags, into its errors.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go ErrorBody, Error

use serde_json::Value;

use super::unified_diff;
use crate::{
    field::BadValue,
    go,
    limits::{self, MAX_VALUE_BYTES},
    schema::{Field, Struct, StructRef, Type, schema},
    strategy::Tree,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldNaming {
    /// Fields that are set, by their JSON names.
    Wire,
    /// All fields, by their Go names.
    Go,
}

/// Fields whose Go name is not the JSON name with a capital: the type, if it matters, and both names.
const GO_NAMES: &[(&str, &str, &str)] = &[
    ("", "apiGroup", "APIGroup"),
    ("", "apiGroups", "APIGroups"),
    ("", "apiVersion", "APIVersion"),
    ("", "awsElasticBlockStore", "AWSElasticBlockStore"),
    ("", "cel", "CEL"),
    ("", "cephfs", "CephFS"),
    ("", "chapAuthDiscovery", "DiscoveryCHAPAuth"),
    ("", "chapAuthSession", "SessionCHAPAuth"),
    ("", "csi", "CSI"),
    ("", "diskURI", "DataDiskURI"),
    ("", "endpoints", "EndpointsName"),
    ("", "fc", "FC"),
    ("", "fsType", "FSType"),
    ("", "gcePersistentDisk", "GCEPersistentDisk"),
    ("", "iqn", "IQN"),
    ("", "iscsi", "ISCSI"),
    ("", "iscsiInterface", "ISCSIInterface"),
    ("", "nfs", "NFS"),
    ("", "pdName", "PDName"),
    ("", "rbd", "RBD"),
    ("", "sslEnabled", "SSLEnabled"),
    ("", "storageos", "StorageOS"),
    ("", "uid", "UID"),
    ("", "wwids", "WWIDs"),
    ("RBDPersistentVolumeSource", "image", "RBDImage"),
    ("RBDPersistentVolumeSource", "monitors", "CephMonitors"),
    ("RBDPersistentVolumeSource", "pool", "RBDPool"),
    ("RBDPersistentVolumeSource", "user", "RadosUser"),
];

/// Fields whose position in the Go struct differs from their protobuf number: the type, the field, and its predecessor
/// (empty: it is the first).
const REORDERED_FIELDS: &[(&str, &str, &str)] = &[
    ("PersistentVolumeClaimSpec", "selector", "accessModes"),
    (
        "ISCSIPersistentVolumeSource",
        "chapAuthSession",
        "chapAuthDiscovery",
    ),
    ("HPAScalingRules", "stabilizationWindowSeconds", ""),
];

/// Fields that are pointers on the wire but plain values in the internal type, and so print as zero when absent.
const NON_POINTER_FIELDS: &[(&str, &str)] = &[
    ("RollingUpdateDaemonSet", "maxSurge"),
    ("RollingUpdateDaemonSet", "maxUnavailable"),
    ("RollingUpdateDeployment", "maxSurge"),
    ("RollingUpdateDeployment", "maxUnavailable"),
    ("RollingUpdateStatefulSetStrategy", "partition"),
];

/// A value of this type of a package by its JSON names.
pub(crate) fn wire_value(package: &str, ty: &str, value: &Value) -> BadValue {
    BadValue::Printed(to_json(package, ty, value, FieldNaming::Wire))
}

/// A value of this internal type with every field; `null` if it is absent.
pub(crate) fn internal_value(package: &str, ty: &str, value: &Value) -> BadValue {
    BadValue::Printed(if value.is_null() {
        "null".to_owned()
    } else {
        internal_json(package, ty, value)
    })
}

/// The text of a value of this internal type, with every field.
pub(crate) fn internal_json(package: &str, ty: &str, value: &Value) -> String {
    to_json(package, ty, value, FieldNaming::Go)
}

/// A value of a named string type: JSON-encoded, so that `<`, `>` and `&` are escaped.
pub(crate) fn typed_string(text: &str) -> BadValue {
    BadValue::Printed(go::json_string(text))
}

/// A value as JSON; `null` if it is absent.
pub(crate) fn json_value(value: &Value) -> BadValue {
    BadValue::Printed(limits::json(value, MAX_VALUE_BYTES).into_text())
}

/// The unified diff of two values of this internal type, one line per field.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/diff/diff.go Diff, toPrettyJSON
pub(crate) fn internal_diff(package: &str, ty: &str, old: &Value, new: &Value) -> String {
    let [old, new] = [old, new].map(|value| to_pretty_json(&internal_json(package, ty, value)));
    unified_diff::unified_diff(&old, &new)
}

/// Indents compact JSON: one line per field and item, one blank per level.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/diff/diff.go toPrettyJSON
fn to_pretty_json(compact: &str) -> String {
    let mut out = String::with_capacity(compact.len() * 2);
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut escaped = false;
    let mut letters = compact.chars().peekable();
    let start = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth));
    };
    while let Some(letter) = letters.next() {
        if in_text {
            in_text = escaped || letter != '"';
            escaped = !escaped && letter == '\\';
            out.push(letter);
            continue;
        }
        match letter {
            '{' | '[' => {
                out.push(letter);
                if let Some('}' | ']') = letters.peek() {
                    out.extend(letters.next());
                } else {
                    depth += 1;
                    start(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                start(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                start(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                in_text = letter == '"';
                out.push(letter);
            }
        }
    }
    out
}

fn to_json(package: &str, ty: &str, value: &Value, naming: FieldNaming) -> String {
    let ty = find_struct(package, ty).expect("types named in errors are in the schema");
    let mut out = String::new();
    write_struct(ty.get(), value, naming, &mut out);
    out
}

fn find_struct(package: &str, ty: &str) -> Option<StructRef> {
    ["v1", "v2"]
        .into_iter()
        .find_map(|version| schema().get(package, version, ty))
}

fn write_struct(ty: &Struct, value: &Value, naming: FieldNaming, out: &mut String) {
    // ObjectMeta has JSON tags in internal types too.
    let naming = if ty.package == "meta" {
        FieldNaming::Wire
    } else {
        naming
    };
    out.push('{');
    let mut first = true;
    write_fields(ty, value, naming, &mut first, out);
    out.push('}');
}

fn write_fields(ty: &Struct, value: &Value, naming: FieldNaming, first: &mut bool, out: &mut String) {
    for field in fields_in_go_order(ty) {
        if field.is_inline() {
            if let Type::Struct(inner) = &field.ty {
                write_fields(inner.get(), value, naming, first, out);
            }
            continue;
        }
        let field_value = value.at(field.name);
        if naming == FieldNaming::Wire && field_value.is_null() {
            continue;
        }
        if !std::mem::take(first) {
            out.push(',');
        }
        let name = match naming {
            FieldNaming::Wire => field.name.to_owned(),
            FieldNaming::Go => go_name(ty.name, field.name),
        };
        out.push_str(&go::json_string(&name));
        out.push(':');
        if field_value.is_null() {
            write_zero_value(ty, field, out);
        } else {
            write_value(&field.ty, field_value, naming, out);
        }
    }
}

fn write_value(ty: &Type, value: &Value, naming: FieldNaming, out: &mut String) {
    match (ty, value) {
        (Type::Struct(ty), _) => write_struct(ty.get(), value, naming, out),
        (Type::List(ty), Value::Array(items)) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(ty, item, naming, out);
            }
            out.push(']');
        }
        (Type::Map(ty, _), Value::Object(entries)) => {
            out.push('{');
            for (index, (key, item)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&go::json_string(key));
                out.push(':');
                write_value(ty, item, naming, out);
            }
            out.push('}');
        }
        _ => out.push_str(&go::json(value)),
    }
}

/// The zero value of an absent field in Go.
fn write_zero_value(of: &Struct, field: &Field, out: &mut String) {
    let zero = NON_POINTER_FIELDS.contains(&(of.name, field.name));
    match &field.ty {
        _ if field.pointer && !zero => out.push_str("null"),
        Type::Struct(ty) => write_struct(ty.get(), &Value::Null, FieldNaming::Go, out),
        Type::String(_) => out.push_str("\"\""),
        Type::Int32(_) | Type::Int64(_) | Type::IntOrString => out.push('0'),
        Type::Bool(_) => out.push_str("false"),
        Type::Quantity => out.push_str("\"0\""),
        _ => out.push_str("null"),
    }
}

/// The fields of a type in the order of the Go struct.
fn fields_in_go_order(ty: &Struct) -> Vec<&Field> {
    let mut fields: Vec<_> = ty.fields.iter().collect();
    for (_, moved, before) in REORDERED_FIELDS.iter().filter(|(name, ..)| *name == ty.name) {
        let position_of = |fields: &[&Field], name: &str| fields.iter().position(|field| field.name == name);
        if let Some(from) = position_of(&fields, moved) {
            let field = fields.remove(from);
            let to = position_of(&fields, before).map_or(0, |at| at + 1);
            fields.insert(to, field);
        }
    }
    fields
}

fn go_name(ty: &str, name: &str) -> String {
    let other = GO_NAMES
        .iter()
        .find(|(of, json, _)| *json == name && (of.is_empty() || *of == ty));
    if let Some((.., go)) = other {
        return (*go).to_owned();
    }
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prints_fields_in_the_order_of_the_type() {
        let request = json!({"name": "r", "exactly": {"count": 1, "deviceClassName": "c", "selectors": [{"cel": {"expression": "e"}}]}});
        assert_eq!(
            to_json("resource", "DeviceRequest", &request, FieldNaming::Wire),
            r#"{"name":"r","exactly":{"deviceClassName":"c","selectors":[{"cel":{"expression":"e"}}],"count":1}}"#
        );
        assert_eq!(
            to_json("resource", "DeviceRequest", &request, FieldNaming::Go),
            r#"{"Name":"r","Exactly":{"DeviceClassName":"c","Selectors":[{"CEL":{"Expression":"e"}}],"AllocationMode":"","Count":1,"AdminAccess":null,"Tolerations":null,"Capacity":null,"DerivedAttributes":null},"FirstAvailable":null}"#
        );
    }

    #[test]
    fn prints_absent_plain_values_as_zero() {
        assert_eq!(
            internal_value(
                "apps",
                "DeploymentStrategy",
                &json!({"rollingUpdate": {"maxSurge": "1%"}})
            ),
            BadValue::Printed(
                r#"{"Type":"","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":"1%"}}"#.to_owned()
            )
        );
        assert_eq!(
            internal_json(
                "autoscaling",
                "HorizontalPodAutoscalerBehavior",
                &json!({"scaleUp": {"policies": [{"value": 1}]}})
            ),
            r#"{"ScaleUp":{"StabilizationWindowSeconds":null,"SelectPolicy":null,"Policies":[{"Type":"","Value":1,"PeriodSeconds":0}],"Tolerance":null},"ScaleDown":null}"#
        );
    }

    #[test]
    fn diffs_only_changed_lines() {
        let claim = |mode: &str| json!({"accessModes": [mode], "resources": {}});
        assert_eq!(
            internal_diff(
                "core",
                "PersistentVolumeClaimSpec",
                &claim("ReadWriteOnce"),
                &claim("ReadWriteMany")
            ),
            "@@ -1,6 +1,6 @@\n {\n  \"AccessModes\": [\n-  \"ReadWriteOnce\"\n+  \"ReadWriteMany\"\n  ],\n  \"Selector\": null,\n  \"Resources\": {\n"
        );
    }

    #[test]
    fn every_exception_names_an_existing_field() {
        let has = |ty: &str, name: &str| {
            let packages = ["core", "apps", "autoscaling"];
            let ty = packages
                .iter()
                .find_map(|package| find_struct(package, ty))
                .expect("the type is there");
            ty.get().fields.iter().any(|field| field.name == name)
        };
        for (ty, name, other) in REORDERED_FIELDS {
            assert!(has(ty, name) && (other.is_empty() || has(ty, other)), "{ty}");
        }
        for (ty, name) in NON_POINTER_FIELDS {
            assert!(has(ty, name), "{ty}.{name}");
        }
        for (ty, name, _) in GO_NAMES.iter().filter(|(ty, ..)| !ty.is_empty()) {
            assert!(has(ty, name), "{ty}.{name}");
        }
    }
}
