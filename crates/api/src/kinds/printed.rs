//! Parts of objects as errors show them: in the order of their type, as they go over the wire, or with every
//! field under its name in Go, as upstream keeps them in memory.

use serde_json::Value;

use super::difference;
use crate::{
    limits::{self, MAX_VALUE_BYTES},
    field::BadValue,
    go,
    strategy::Tree,
    schema::{Field, Struct, StructRef, Type, schema},
};

/// How fields are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// What is there, by its name on the wire.
    Wire,
    /// All, by their names in Go.
    Go,
}

/// Fields whose names in Go are not theirs with a capital: the type, if it matters, and both names.
const NAMES: &[(&str, &str, &str)] = &[
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

/// Fields that are not declared where their numbers put them: the type, the field, and the one it comes
/// after, if it is not the first.
const MOVED: &[(&str, &str, &str)] = &[
    ("PersistentVolumeClaimSpec", "selector", "accessModes"),
    (
        "ISCSIPersistentVolumeSource",
        "chapAuthSession",
        "chapAuthDiscovery",
    ),
    ("HPAScalingRules", "stabilizationWindowSeconds", ""),
];

/// Fields that may be absent on the wire, and are zero then in Go.
const ZERO: &[(&str, &str)] = &[
    ("RollingUpdateDaemonSet", "maxSurge"),
    ("RollingUpdateDaemonSet", "maxUnavailable"),
    ("RollingUpdateDeployment", "maxSurge"),
    ("RollingUpdateDeployment", "maxUnavailable"),
    ("RollingUpdateStatefulSetStrategy", "partition"),
];

/// A part of this type of a package, as it goes over the wire.
pub(crate) fn wire(package: &str, ty: &str, value: &Value) -> BadValue {
    BadValue::Printed(text(package, ty, value, Form::Wire))
}

/// A part of this type with every field; `null` if it is not there.
pub(crate) fn shown(package: &str, ty: &str, value: &Value) -> BadValue {
    BadValue::Printed(if value.is_null() {
        "null".to_owned()
    } else {
        go_struct(package, ty, value)
    })
}

/// The text of a part of this type, with every field.
pub(crate) fn go_struct(package: &str, ty: &str, value: &Value) -> String {
    text(package, ty, value, Form::Go)
}

/// A text of a type of its own: written as JSON, so that markup in it is escaped.
pub(crate) fn word(text: &str) -> BadValue {
    BadValue::Printed(go::json_string(text))
}

/// A value as JSON; `null` if it is not there.
pub(crate) fn value(value: &Value) -> BadValue {
    let (Ok(text) | Err(text)) = limits::json(value, MAX_VALUE_BYTES);
    BadValue::Printed(text)
}

/// How two parts of this type differ, a line for each field.
pub(crate) fn changes(package: &str, ty: &str, old: &Value, new: &Value) -> String {
    let [old, new] = [old, new].map(|value| lines(&go_struct(package, ty, value)));
    difference::unified(&old, &new)
}

/// JSON with a line for each field and item, a blank deeper for each level.
fn lines(compact: &str) -> String {
    let mut out = String::with_capacity(compact.len() * 2);
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
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

fn text(package: &str, ty: &str, value: &Value, form: Form) -> String {
    let ty = find(package, ty).expect("errors show types of the table");
    let mut out = String::new();
    object(ty.get(), value, form, &mut out);
    out
}

fn find(package: &str, ty: &str) -> Option<StructRef> {
    ["v1", "v2"]
        .into_iter()
        .find_map(|version| schema().get(package, version, ty))
}

fn object(ty: &Struct, value: &Value, form: Form, out: &mut String) {
    // The types of metadata have names for JSON wherever they are kept.
    let form = if ty.package == "meta" { Form::Wire } else { form };
    out.push('{');
    let mut first = true;
    fields(ty, value, form, &mut first, out);
    out.push('}');
}

fn fields(ty: &Struct, value: &Value, form: Form, first: &mut bool, out: &mut String) {
    for field in in_order(ty) {
        if field.is_inline() {
            if let Type::Struct(inner) = &field.ty {
                fields(inner.get(), value, form, first, out);
            }
            continue;
        }
        let held = value.at(field.name);
        if form == Form::Wire && held.is_null() {
            continue;
        }
        if !std::mem::take(first) {
            out.push(',');
        }
        let name = match form {
            Form::Wire => field.name.to_owned(),
            Form::Go => go_name(ty.name, field.name),
        };
        out.push_str(&go::json_string(&name));
        out.push(':');
        if held.is_null() {
            empty(ty, field, out);
        } else {
            one(&field.ty, held, form, out);
        }
    }
}

fn one(ty: &Type, value: &Value, form: Form, out: &mut String) {
    match (ty, value) {
        (Type::Struct(ty), _) => object(ty.get(), value, form, out),
        (Type::List(ty), Value::Array(items)) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                one(ty, item, form, out);
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
                one(ty, item, form, out);
            }
            out.push('}');
        }
        _ => out.push_str(&go::json(value)),
    }
}

/// A field that is not there, in Go.
fn empty(of: &Struct, field: &Field, out: &mut String) {
    let zero = ZERO.contains(&(of.name, field.name));
    match &field.ty {
        _ if field.pointer && !zero => out.push_str("null"),
        Type::Struct(ty) => object(ty.get(), &Value::Null, Form::Go, out),
        Type::String(_) => out.push_str("\"\""),
        Type::Int32(_) | Type::Int64(_) | Type::IntOrString => out.push('0'),
        Type::Bool(_) => out.push_str("false"),
        Type::Quantity => out.push_str("\"0\""),
        _ => out.push_str("null"),
    }
}

/// The fields of a type in the order of their declaration.
fn in_order(ty: &Struct) -> Vec<&Field> {
    let mut fields: Vec<_> = ty.fields.iter().collect();
    for (_, moved, before) in MOVED.iter().filter(|(name, ..)| *name == ty.name) {
        let place = |fields: &[&Field], name: &str| fields.iter().position(|field| field.name == name);
        if let Some(from) = place(&fields, moved) {
            let field = fields.remove(from);
            let to = place(&fields, before).map_or(0, |at| at + 1);
            fields.insert(to, field);
        }
    }
    fields
}

fn go_name(ty: &str, name: &str) -> String {
    let other = NAMES
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
    fn fields_come_in_the_order_of_their_type() {
        let request = json!({"name": "r", "exactly": {"count": 1, "deviceClassName": "c", "selectors": [{"cel": {"expression": "e"}}]}});
        assert_eq!(
            text("resource", "DeviceRequest", &request, Form::Wire),
            r#"{"name":"r","exactly":{"deviceClassName":"c","selectors":[{"cel":{"expression":"e"}}],"count":1}}"#
        );
        assert_eq!(
            text("resource", "DeviceRequest", &request, Form::Go),
            r#"{"Name":"r","Exactly":{"DeviceClassName":"c","Selectors":[{"CEL":{"Expression":"e"}}],"AllocationMode":"","Count":1,"AdminAccess":null,"Tolerations":null,"Capacity":null,"DerivedAttributes":null},"FirstAvailable":null}"#
        );
    }

    #[test]
    fn what_is_no_pointer_in_go_is_zero() {
        assert_eq!(
            shown(
                "apps",
                "DeploymentStrategy",
                &json!({"rollingUpdate": {"maxSurge": "1%"}})
            ),
            BadValue::Printed(r#"{"Type":"","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":"1%"}}"#.to_owned())
        );
        assert_eq!(
            go_struct(
                "autoscaling",
                "HorizontalPodAutoscalerBehavior",
                &json!({"scaleUp": {"policies": [{"value": 1}]}})
            ),
            r#"{"ScaleUp":{"StabilizationWindowSeconds":null,"SelectPolicy":null,"Policies":[{"Type":"","Value":1,"PeriodSeconds":0}],"Tolerance":null},"ScaleDown":null}"#
        );
    }

    #[test]
    fn changes_show_the_lines_that_differ() {
        let claim = |mode: &str| json!({"accessModes": [mode], "resources": {}});
        assert_eq!(
            changes(
                "core",
                "PersistentVolumeClaimSpec",
                &claim("ReadWriteOnce"),
                &claim("ReadWriteMany")
            ),
            "@@ -1,6 +1,6 @@\n {\n  \"AccessModes\": [\n-  \"ReadWriteOnce\"\n+  \"ReadWriteMany\"\n  ],\n  \"Selector\": null,\n  \"Resources\": {\n"
        );
    }

    #[test]
    fn every_exception_is_one_of_a_field() {
        let has = |ty: &str, name: &str| {
            let packages = ["core", "apps", "autoscaling"];
            let ty = packages
                .iter()
                .find_map(|package| find(package, ty))
                .expect("the type is there");
            ty.get().fields.iter().any(|field| field.name == name)
        };
        for (ty, name, other) in MOVED {
            assert!(has(ty, name) && (other.is_empty() || has(ty, other)), "{ty}");
        }
        for (ty, name) in ZERO {
            assert!(has(ty, name), "{ty}.{name}");
        }
        for (ty, name, _) in NAMES.iter().filter(|(ty, ..)| !ty.is_empty()) {
            assert!(has(ty, name), "{ty}.{name}");
        }
    }
}
