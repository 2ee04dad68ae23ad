//! The table of types.

use super::{facts, names};
use k3_api::schema::{Field, ListMergeKind, Struct, StructRef, Type, schema};
use k3_api::type_schema::Struct as _;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Types that the recorded API document does not describe, since no resource of it refers to them.
const NOT_IN_OPENAPI: [&str; 5] = [
    "meta.v1.ApplyOptions",
    "meta.v1.GroupVersionKind",
    "meta.v1.GroupVersionResource",
    "core.v1.RangeAllocation",
    "core.v1.SerializedReference",
];

/// Packages it does not describe at all.
const PACKAGES_NOT_IN_OPENAPI: [&str; 2] = ["admission", "apidiscovery"];

/// Messages that are not structs in JSON.
const LEAVES: [&str; 13] = [
    "Time",
    "MicroTime",
    "Duration",
    "FieldsV1",
    "Quantity",
    "IntOrString",
    "RawExtension",
    "JSON",
    "JSONSchemaPropsOrBool",
    "JSONSchemaPropsOrArray",
    "JSONSchemaPropsOrStringArray",
    "ExtraValue",
    "Verbs",
];

fn package_path(package: &str, version: &str) -> String {
    match package {
        "meta" => format!("k8s.io.apimachinery.pkg.apis.meta.{version}"),
        "apiextensions" => format!("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.{version}"),
        "apiregistration" => format!("k8s.io.kube_aggregator.pkg.apis.apiregistration.{version}"),
        _ => format!("k8s.io.api.{package}.{version}"),
    }
}

fn message_name(of: &Struct) -> String {
    format!("{}.{}", package_path(of.package, of.version), of.name)
}

fn openapi_name(of: &Struct) -> String {
    message_name(of)
        .replacen("k8s.io", "io.k8s", 1)
        .replace("n_a", "n-a")
        .replace("s_a", "s-a")
        .replace("e_a", "e-a")
}

fn in_openapi(of: &Struct) -> bool {
    let short = format!("{}.{}.{}", of.package, of.version, of.name);
    let inline = schema().structs().any(|user| {
        let mut fields = user.get().fields.iter();
        fields.any(|f| f.is_inline() && matches!(f.ty, Type::Struct(inner) if std::ptr::eq(inner.get(), of)))
    });
    let reviews = of.name.starts_with("Conversion") && of.package == "apiextensions";
    !inline
        && !reviews
        && !PACKAGES_NOT_IN_OPENAPI.contains(&of.package)
        && !NOT_IN_OPENAPI.contains(&short.as_str())
        && !of.name.ends_with("ProxyOptions")
        && !["PodExecOptions", "PodAttachOptions", "PodPortForwardOptions"].contains(&of.name)
}

/// The protobuf type of a field, spelled as the facts do, seen from a package.
fn message_type(ty: &Type, from: &Struct) -> String {
    let known = |path: &str, name: &str| {
        let home = package_path(from.package, from.version);
        if home == path {
            name.to_owned()
        } else {
            format!(".{path}.{name}")
        }
    };
    let meta = package_path("meta", "v1");
    let json = package_path("apiextensions", "v1");
    match ty {
        Type::String(_) => "string".to_owned(),
        Type::Int32(_) => "int32".to_owned(),
        Type::Int64(_) => "int64".to_owned(),
        Type::Bool(_) => "bool".to_owned(),
        Type::Double => "double".to_owned(),
        Type::Bytes => "bytes".to_owned(),
        Type::Time => known(&meta, "Time"),
        Type::MicroTime => known(&meta, "MicroTime"),
        Type::Duration => known(&meta, "Duration"),
        Type::FieldsV1 => known(&meta, "FieldsV1"),
        Type::Quantity => known("k8s.io.apimachinery.pkg.api.resource", "Quantity"),
        Type::IntOrString => known("k8s.io.apimachinery.pkg.util.intstr", "IntOrString"),
        Type::RawExtension => known("k8s.io.apimachinery.pkg.runtime", "RawExtension"),
        Type::Json => known(&json, "JSON"),
        Type::SchemaOrBool => known(&json, "JSONSchemaPropsOrBool"),
        Type::SchemaOrArray => known(&json, "JSONSchemaPropsOrArray"),
        Type::SchemaOrStrings => known(&json, "JSONSchemaPropsOrStringArray"),
        Type::Strings(name) => name.rsplit('.').next().unwrap_or_default().to_owned(),
        Type::Struct(of) => {
            let of = of.get();
            known(&package_path(of.package, of.version), of.name)
        }
        Type::List(items) => format!("[]{}", message_type(items, from)),
        Type::Map(values, _) => format!("map<string, {}>", message_type(values, from)),
    }
}

/// The name of a field in the messages, where it is not the one in JSON.
fn same_name(field: &Field, message: &str) -> bool {
    if field.is_inline() {
        return true;
    }
    let plain: String = field.name.chars().filter(char::is_ascii_alphanumeric).collect();
    plain.eq_ignore_ascii_case(message)
}

#[test]
fn protobuf_field_numbers_and_types_match_the_facts() {
    let Some(messages) = facts("protobuf.json") else {
        return;
    };
    let mut checked = 0;
    for of in schema().structs().map(StructRef::get) {
        let name = message_name(of);
        let message = messages[&name]
            .as_object()
            .unwrap_or_else(|| panic!("no message {name}"));
        let theirs: BTreeMap<u64, (&str, &str)> = message
            .iter()
            .map(|(field, fact)| {
                (
                    fact[0].as_u64().unwrap(),
                    (field.as_str(), fact[1].as_str().unwrap()),
                )
            })
            .collect();
        let ours: BTreeMap<u64, &Field> = of
            .fields
            .iter()
            .filter(|f| f.number != 0)
            .map(|f| (u64::from(f.number), f))
            .collect();
        assert_eq!(
            ours.keys().collect::<Vec<_>>(),
            theirs.keys().collect::<Vec<_>>(),
            "{name}"
        );
        for (number, field) in ours {
            let (their_name, their_type) = theirs[&number];
            assert!(
                same_name(field, their_name),
                "{name}: {} is {their_name}",
                field.name
            );
            // Enumerations by number are spelled as messages of text in neither; types are equal.
            assert_eq!(message_type(&field.ty, of), their_type, "{name}.{}", field.name);
            checked += 1;
        }
    }
    assert!(checked > 2000, "only {checked} fields");
}

#[test]
fn every_reachable_type_is_in_the_table() {
    let (Some(messages), Some(resources)) = (facts("protobuf.json"), facts("discovery.json")) else {
        return;
    };
    let mut waiting = Vec::new();
    for resource in resources.as_array().unwrap() {
        let text = |key: &str| resource[key].as_str().unwrap();
        let kind = schema().kind(text("group"), text("version"), text("kind"));
        let kind = kind
            .unwrap_or_else(|| panic!("no type for {}", text("kind")))
            .get();
        waiting.push(message_name(kind));
        if names(&resource["verbs"]).contains(&"list") {
            waiting.push(format!("{}List", message_name(kind)));
        }
    }
    let mut seen = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        let Some(fields) = messages[&name].as_object() else {
            panic!("no facts of {name}")
        };
        if !seen.insert(name.clone()) {
            continue;
        }
        let (home, short) = name.rsplit_once('.').unwrap();
        if LEAVES.contains(&short) {
            continue;
        }
        let ours = schema().structs().any(|of| message_name(of.get()) == name);
        assert!(ours, "{name} is not in the table");
        for fact in fields.values() {
            let spelled = fact[1].as_str().unwrap();
            let spelled = spelled
                .trim_start_matches("[]")
                .trim_start_matches("map<string, ")
                .trim_end_matches('>');
            if let Some(full) = spelled.strip_prefix('.') {
                waiting.push(full.to_owned());
            } else if spelled.starts_with(|c: char| c.is_ascii_uppercase()) {
                waiting.push(format!("{home}.{spelled}"));
            }
        }
    }
    assert!(seen.len() > 500, "only {} types", seen.len());
}

#[test]
fn merge_strategies_match_the_facts() {
    let Some(topology) = facts("list-topology.json") else {
        return;
    };
    let nothing = Value::Null;
    let mut checked = 0;
    for of in schema().structs().map(StructRef::get).filter(|of| in_openapi(of)) {
        let name = openapi_name(of);
        let theirs = &topology[&name];
        for field in of.all() {
            let fact = theirs.get(field.name).unwrap_or(&nothing);
            let at = format!("{name}.{}", field.name);
            let listing = match fact["list-type"].as_str() {
                Some("map") => ListMergeKind::Keys(
                    names(&fact["list-map-keys"])
                        .into_iter()
                        .map(str::to_owned)
                        .collect(),
                ),
                Some("set") => ListMergeKind::Set,
                _ => ListMergeKind::Atomic,
            };
            assert_eq!(field.listing, listing, "{at}");
            let atomic = fact["map-type"] == "atomic";
            let granular = fact["map-type"] == "granular";
            match &field.ty {
                Type::Map(..) => assert_eq!(field.atomic, atomic, "{at}"),
                Type::Struct(inner) if atomic || granular => assert_eq!(inner.is_atomic(), atomic, "{at}"),
                _ => assert!(!atomic && !granular, "{at}"),
            }
            let strategy = fact["patch-strategy"].as_str().unwrap_or_default();
            assert_eq!(field.patch.merge, strategy.contains("merge"), "{at}");
            assert_eq!(field.patch.retain_keys, strategy.contains("retainKeys"), "{at}");
            assert_eq!(field.patch.merge_key, fact["patch-merge-key"].as_str(), "{at}");
            checked += usize::from(!fact.is_null());
        }
        for field in theirs.as_object().into_iter().flat_map(Map::keys) {
            assert!(of.named(field).is_some(), "{name}.{field} is not in the table");
        }
    }
    assert!(checked > 300, "only {checked} fields");
}

#[test]
fn required_fields_and_defaults_match_the_facts() {
    let Some(facts) = facts("field-facts.json") else {
        return;
    };
    let mut checked = 0;
    for of in schema().structs().map(StructRef::get).filter(|of| in_openapi(of)) {
        let name = openapi_name(of);
        let required: BTreeSet<&str> = names(&facts["required"][&name]).into_iter().collect();
        let ours: BTreeSet<&str> = of.all().filter(|f| f.required).map(|f| f.name).collect();
        assert_eq!(ours, required, "{name}");
        let defaults: BTreeMap<&str, &Value> = facts["defaults"][&name]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, value)| (field.as_str(), value))
            .collect();
        let ours: BTreeMap<&str, &Value> = of
            .all()
            .filter_map(|f| Some((f.name, f.default.as_ref()?)))
            .collect();
        assert_eq!(ours, defaults, "{name}");
        checked += required.len() + defaults.len();
    }
    assert!(checked > 700, "only {checked} facts");
}
