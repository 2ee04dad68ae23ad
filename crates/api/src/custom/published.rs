//! The schemas of a version as published in OpenAPI, for `kubectl explain` and client-side validation.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder/builder.go BuildOpenAPIV2, BuildOpenAPIV3, newBuilder, addEmbeddedProperties

use serde_json::{Map, Value, json};

use super::node::NodeRole;
use crate::strategy::{Tree, TreeMut};

/// The schemas of the objects and of their lists, each with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedModels {
    /// Of an object.
    pub object: (String, Value),
    /// Of a list.
    pub list: (String, Value),
}

/// The two forms of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DocumentVersion {
    V2,
    V3,
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const OF_OBJECTS: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const OF_LISTS: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const INNER_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const INNER_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

/// What a schema may say in documents, beside the schemas inside.
const KEPT: [&str; 30] = [
    "type",
    "nullable",
    "description",
    "title",
    "default",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
    "format",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "enum",
    "maxProperties",
    "minProperties",
    "required",
];

/// The name of a schema in documents: `com.example.stable.v1.CronTab`.
pub fn model_name(group: &str, version: &str, kind: &str) -> String {
    let group: Vec<_> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", group.join("."))
}

/// The schemas of a version of a stored definition, for documents of `OpenAPI` 3; `None` if there is no such version.
pub fn v3(crd: &Value, version: &str) -> Option<PublishedModels> {
    models(crd, version, DocumentVersion::V3)
}

/// The same for documents of `OpenAPI` 2, which say less.
pub fn v2(crd: &Value, version: &str) -> Option<PublishedModels> {
    models(crd, version, DocumentVersion::V2)
}

fn models(crd: &Value, version: &str, form: DocumentVersion) -> Option<PublishedModels> {
    let spec = crd.at("spec");
    let whole = spec
        .items("versions")
        .iter()
        .find(|one| one.text("name") == version)?;
    let group = spec.text("group");
    let names = spec.at("names");
    let kind = names.text("kind");
    let list_kind = names.text("listKind");
    let name = model_name(group, version, kind);
    let mut object = object(whole, spec, form);
    let mut list = json!({
        "description": format!("{list_kind} is a list of {kind}"),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": API_VERSION, "type": "string"},
            "kind": {"description": KIND, "type": "string"},
            "items": {
                "description": format!(
                    "List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
                    names.text("plural")
                ),
                "type": "array",
                "items": {"$ref": form.reference(&name)},
            },
            "metadata": form.described("ListMeta", OF_LISTS),
        },
    });
    let selectable: Vec<_> = whole
        .items("selectableFields")
        .iter()
        .map(|field| {
            let path = field.text("jsonPath");
            json!({"fieldPath": path.strip_prefix('.').unwrap_or(path)})
        })
        .collect();
    for (schema, kind) in [(&mut object, kind), (&mut list, list_kind)] {
        let kinds = json!([{"group": group, "version": version, "kind": kind}]);
        schema.set("x-kubernetes-group-version-kind", kinds);
        if !selectable.is_empty() {
            schema.set("x-kubernetes-selectable-fields", selectable.clone());
        }
    }
    Some(PublishedModels {
        object: (name, object),
        list: (model_name(group, version, list_kind), list),
    })
}

fn object(version: &Value, spec: &Value, form: DocumentVersion) -> Value {
    let schema = version.at("schema").at("openAPIV3Schema");
    let preserves = schema.flag("x-kubernetes-preserve-unknown-fields") || spec.flag("preserveUnknownFields");
    if schema.is_null() || (form == DocumentVersion::V2 && preserves) {
        return json!({"type": "object"});
    }
    let mut shown = form.schema(schema, NodeRole::Resource);
    let properties = shown.ensure_object("properties");
    properties.set("metadata", form.described("ObjectMeta", OF_OBJECTS));
    properties.set(
        "apiVersion",
        json!({"description": API_VERSION, "type": "string"}),
    );
    properties.set("kind", json!({"description": KIND, "type": "string"}));
    shown
}

// --- DocumentVersion ---

impl DocumentVersion {
    fn reference(self, name: &str) -> String {
        match self {
            DocumentVersion::V2 => format!("#/definitions/{name}"),
            DocumentVersion::V3 => format!("#/components/schemas/{name}"),
        }
    }

    /// A reference to a type of metadata, with its own description.
    fn described(self, name: &str, description: &str) -> Value {
        let reference = json!(self.reference(&format!("{META}.{name}")));
        match self {
            DocumentVersion::V2 => json!({"description": description, "$ref": reference}),
            DocumentVersion::V3 => json!({"description": description, "allOf": [{"$ref": reference}]}),
        }
    }

    /// A schema as it is shown.
    fn schema(self, schema: &Value, role: NodeRole) -> Value {
        let mut shown = Value::Object(Map::new());
        for name in KEPT {
            let value = schema.at(name);
            let empty = match value {
                Value::Null | Value::Bool(false) => true,
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                _ => false,
            };
            // A default may be anything.
            if !empty || (name == "default" && schema.has(name)) {
                shown.set(name, value.clone());
            }
        }
        let named = schema.entries("properties");
        if !named.is_empty() {
            let inner = named
                .iter()
                .map(|(name, one)| (name.clone(), self.schema(one, NodeRole::Field)));
            shown.set("properties", Value::Object(inner.collect()));
        }
        if schema.at("items").is_object() {
            shown.set("items", self.schema(schema.at("items"), NodeRole::Field));
        }
        match schema.at("additionalProperties") {
            Value::Null => {}
            Value::Bool(any) => shown.set("additionalProperties", *any),
            inner => shown.set("additionalProperties", self.schema(inner, NodeRole::Field)),
        }
        match self {
            DocumentVersion::V2 => simplify(&mut shown, schema),
            DocumentVersion::V3 => junctors(&mut shown, schema),
        }
        let hides = self == DocumentVersion::V2 && schema.flag("x-kubernetes-preserve-unknown-fields");
        if role == NodeRole::Field && !hides && schema.flag("x-kubernetes-embedded-resource") {
            self.embed(&mut shown);
        }
        shown
    }

    /// Gives an object inside another one the fields every object has.
    fn embed(self, shown: &mut Value) {
        let properties = shown.ensure_object("properties");
        properties.set(
            "apiVersion",
            json!({"description": INNER_API_VERSION, "type": "string"}),
        );
        properties.set("kind", json!({"description": INNER_KIND, "type": "string"}));
        properties.set("metadata", self.described("ObjectMeta", OF_OBJECTS));
        let mut required = shown.items("required").to_vec();
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|one| one == name) {
                required.push(json!(name));
            }
        }
        shown.set("required", required);
    }
}

/// The schemas a value is validated by besides.
fn junctors(shown: &mut Value, schema: &Value) {
    for name in ["allOf", "anyOf", "oneOf"] {
        let inner: Vec<_> = schema
            .items(name)
            .iter()
            .map(|one| DocumentVersion::V3.schema(one, NodeRole::Field))
            .collect();
        if !inner.is_empty() {
            shown.set(name, inner);
        }
    }
    if schema.at("not").is_object() {
        shown.set(
            "not",
            DocumentVersion::V3.schema(schema.at("not"), NodeRole::Field),
        );
    }
    if !schema.flag("x-kubernetes-int-or-string") {
        return;
    }
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let said = *schema.at("anyOf") == either
        || schema
            .items("allOf")
            .first()
            .is_some_and(|first| *first.at("anyOf") == either);
    if said {
        return;
    }
    if schema.items("anyOf").is_empty() {
        shown.set("anyOf", either);
    } else {
        let mut all = vec![json!({"anyOf": either})];
        all.extend(shown.items("allOf").iter().cloned());
        shown.set("allOf", all);
    }
}

/// Leaves out what clients of the older documents misread.
fn simplify(shown: &mut Value, schema: &Value) {
    shown.remove("default");
    let preserves = schema.flag("x-kubernetes-preserve-unknown-fields");
    if shown.flag("nullable") {
        for name in ["type", "nullable", "items", "properties"] {
            shown.remove(name);
        }
    }
    if preserves {
        shown.remove("items");
        shown.remove("properties");
    }
    let kind = shown.text("type");
    if (kind == "array" && !shown.has("items")) || (kind == "object" && preserves) {
        shown.remove("type");
    }
    if schema.at("additionalProperties").flag("nullable") {
        shown.remove("required");
    }
    let kept: Vec<Value> = shown
        .texts("required")
        .filter(|name| !(shown.has("properties") && schema.at("properties").at(name).flag("nullable")))
        .map(|name| json!(name))
        .collect();
    if kept.is_empty() {
        shown.remove("required");
    } else {
        shown.set("required", kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(spec: &Value) -> Value {
        json!({"spec": {"group": "stable.example.com", "scope": "Namespaced",
            "names": {"plural": "crontabs", "kind": "CronTab", "listKind": "CronTabList"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                "selectableFields": [{"jsonPath": ".spec.a"}]}]}})
    }

    fn shown(form: fn(&Value, &str) -> Option<PublishedModels>, spec: &Value) -> Value {
        form(&crd(spec), "v1")
            .unwrap()
            .object
            .1
            .at_path("properties.spec")
            .clone()
    }

    #[test]
    fn an_object_has_what_all_have() {
        let models = v3(&crd(&json!({"type": "string"})), "v1").unwrap();
        let (name, object) = models.object;
        assert_eq!(
            (name.as_str(), models.list.0.as_str()),
            (
                "com.example.stable.v1.CronTab",
                "com.example.stable.v1.CronTabList"
            )
        );
        assert_eq!(object.at_path("properties.kind").text("description"), KIND);
        assert_eq!(
            object.at("x-kubernetes-group-version-kind"),
            &json!([{"group": "stable.example.com", "version": "v1", "kind": "CronTab"}])
        );
        assert_eq!(
            object.at("x-kubernetes-selectable-fields"),
            &json!([{"fieldPath": "spec.a"}])
        );
        let items = models.list.1.at_path("properties.items.items").clone();
        assert_eq!(
            items,
            json!({"$ref": "#/components/schemas/com.example.stable.v1.CronTab"})
        );
        assert_eq!(v3(&crd(&json!({})), "v2"), None);
    }

    #[test]
    fn a_number_or_a_text_is_either() {
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        let mark = json!({"x-kubernetes-int-or-string": true});
        let said = json!({"x-kubernetes-int-or-string": true, "anyOf": either});
        assert_eq!(shown(v3, &mark), said);
        assert_eq!(shown(v2, &mark), mark);
        assert_eq!(shown(v3, &said), said);
    }

    #[test]
    fn publishes_metadata_of_embedded_resources() {
        let mut inner = json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}});
        for form in [v2, v3] {
            let shown = shown(form, &inner);
            assert_eq!(shown.at("required"), &json!(["kind", "apiVersion"]));
            assert_eq!(shown.at_path("properties.kind").text("description"), INNER_KIND);
        }
        inner.set("x-kubernetes-preserve-unknown-fields", true);
        assert!(!shown(v2, &inner).has("properties") && !shown(v2, &inner).has("type"));
        assert!(shown(v3, &inner).at("properties").has("metadata"));
    }

    #[test]
    fn older_documents_say_less() {
        let spec = json!({"type": "object", "required": ["a", "b"], "anyOf": [{"required": ["a"]}], "properties": {
            "a": {"type": "string", "nullable": true, "default": "x"}, "b": {"type": "integer", "minimum": 1}}});
        assert_eq!(
            shown(v2, &spec),
            json!({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "integer", "minimum": 1}}})
        );
        assert_eq!(shown(v3, &spec), spec);
    }
}
