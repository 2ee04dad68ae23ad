//! OpenAPI definitions (schemas) of types.

use std::collections::BTreeMap;

use k3_api::{
    custom::published::PublishedModels,
    schema::{Field, ListMergeKind, Struct, StructRef, Type, schema},
    text::SharedText,
    type_schema::Struct as _,
};
use serde_json::{Map, Value, json};

use super::{leaf, name};

/// Which version of `OpenAPI`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenApiVersion {
    /// Version 2, also known as Swagger.
    V2,
    /// Version 3.
    V3,
}

/// The definitions of a document: those that were referred to, and those that these refer to.
// upstream: vendor/k8s.io/kube-openapi/pkg/builder3/openapi.go BuildOpenAPIDefinitionsForResources
pub(super) struct Definitions {
    dialect: OpenApiVersion,
    /// The groups and versions of the document: kinds that belong to every group say all of them.
    groups: Vec<(SharedText, SharedText)>,
    /// The definitions of custom objects, by name.
    custom: BTreeMap<String, Value>,
    /// By name, with the struct if it has fields. What is here is, or will be, defined.
    known: BTreeMap<String, Option<&'static Struct>>,
    /// Names that were referred to and are not written yet.
    waiting: Vec<String>,
}

/// A kind whose `kind` and `apiVersion` are described.
const SOME_KIND: &str = "io.k8s.api.core.v1.Pod";

/// Kinds that are understood in every group.
const EVERYWHERE: [&str; 2] = ["DeleteOptions", "WatchEvent"];

/// A union: the struct, its discriminator, and the discriminator's value for each of the other fields.
type DiscriminatedUnion = (
    &'static str,
    Option<&'static str>,
    &'static [(&'static str, &'static str)],
);

const UNIONS: [DiscriminatedUnion; 8] = [
    (
        "core.AppArmorProfile",
        Some("type"),
        &[("localhostProfile", "LocalhostProfile")],
    ),
    (
        "core.PodSchedulingGroup",
        None,
        &[("podGroupName", "PodGroupName")],
    ),
    (
        "core.SeccompProfile",
        Some("type"),
        &[("localhostProfile", "LocalhostProfile")],
    ),
    (
        "flowcontrol.LimitResponse",
        Some("type"),
        &[("queuing", "Queuing")],
    ),
    (
        "flowcontrol.PriorityLevelConfigurationSpec",
        Some("type"),
        &[("exempt", "Exempt"), ("limited", "Limited")],
    ),
    (
        "flowcontrol.Subject",
        Some("kind"),
        &[
            ("group", "Group"),
            ("serviceAccount", "ServiceAccount"),
            ("user", "User"),
        ],
    ),
    (
        "scheduling.WorkloadPodGroupDisruptionMode",
        None,
        &[("all", "All"), ("single", "Single")],
    ),
    (
        "scheduling.WorkloadPodGroupSchedulingPolicy",
        None,
        &[("basic", "Basic"), ("gang", "Gang")],
    ),
];

// --- Definitions ---

impl Definitions {
    /// None yet, for a document of these groups and versions.
    pub(super) fn new(dialect: OpenApiVersion, groups: Vec<(SharedText, SharedText)>) -> Self {
        Self {
            dialect,
            groups,
            custom: BTreeMap::new(),
            known: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }

    /// The dialect they are written in.
    pub(super) fn dialect(&self) -> OpenApiVersion {
        self.dialect
    }

    /// A reference to a struct, which will be defined.
    pub(super) fn refer_struct(&mut self, of: StructRef) -> Value {
        let of = of.get();
        self.refer(name::of_struct(of), Some(of))
    }

    /// Defines the types of custom objects.
    pub(super) fn define(&mut self, models: PublishedModels) {
        self.custom.extend([models.object, models.list]);
    }

    /// A reference to the type of a custom object, which was defined.
    pub(super) fn refer_custom(&mut self, name: &str) -> Value {
        self.refer_meta("ObjectMeta");
        self.refer_meta("ListMeta");
        self.refer(name.to_owned(), None)
    }

    /// A reference to a type without fields, which will be defined.
    pub(super) fn refer_leaf(&mut self, name: &str) -> Value {
        self.refer(name.to_owned(), None)
    }

    /// A reference to a type of the package that belongs to every group.
    pub(super) fn refer_meta(&mut self, kind: &str) -> Value {
        let of = schema().get("meta", "v1", kind);
        self.refer_struct(of.expect("the table has the types of every group"))
    }

    fn refer(&mut self, name: String, of: Option<&'static Struct>) -> Value {
        let ref_prefix = match self.dialect {
            OpenApiVersion::V2 => "definitions",
            OpenApiVersion::V3 => "components/schemas",
        };
        let reference = json!({"$ref": format!("#/{ref_prefix}/{name}")});
        if !self.known.contains_key(&name) {
            self.waiting.push(name.clone());
            self.known.insert(name, of);
        }
        reference
    }

    /// The next definition that is to be written, with its name; more may wait after that.
    pub(super) fn next(&mut self) -> Option<(String, Value)> {
        let name = self.waiting.pop()?;
        if let Some(custom) = self.custom.remove(&name) {
            return Some((name, custom));
        }
        let mut definition = match self.known.get(&name).copied().flatten() {
            Some(of) => self.object(of, &name),
            None => leaf::definition(&name, self.dialect),
        };
        if let Some(text) = described(&name) {
            definition["description"] = json!(text);
        }
        Some((name, definition))
    }

    fn object(&mut self, of: &'static Struct, name: &str) -> Value {
        let mut properties = Map::new();
        for field in of.all() {
            let mut property = self.property(field, of);
            if let Some(text) = field_described(name, of, field.name) {
                property["description"] = json!(text);
            }
            // Beside a reference nothing else counts in version 3.
            if self.dialect == OpenApiVersion::V3
                && let Value::Object(fields) = &mut property
                && fields.len() > 1
                && let Some(reference) = fields.remove("$ref")
            {
                property["allOf"] = json!([{"$ref": reference}]);
            }
            properties.insert(field.name.to_owned(), property);
        }
        let mut definition = json!({"type": "object"});
        if !properties.is_empty() {
            definition["properties"] = Value::Object(properties);
        }
        let required = required(of);
        if !required.is_empty() {
            definition["required"] = json!(required);
        }
        if of.atomic {
            definition["x-kubernetes-map-type"] = json!("atomic");
        }
        if let Some(kinds) = self.kinds(of) {
            definition["x-kubernetes-group-version-kind"] = kinds;
        }
        let path = format!("{}.{}", of.package, of.name);
        if let Some((_, by, fields)) = UNIONS.iter().find(|(known, ..)| *known == path) {
            let fields: Map<_, _> = fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), json!(value)))
                .collect();
            let mut union = json!({"fields-to-discriminateBy": fields});
            if let Some(by) = by {
                union["discriminator"] = json!(by);
            }
            definition["x-kubernetes-unions"] = json!([union]);
        }
        definition
    }

    /// Group, version and kind of what is a kind.
    fn kinds(&self, of: &Struct) -> Option<Value> {
        let entry = |group: &str, version: &str| json!({"group": group, "version": version, "kind": of.name});
        if of.package == "meta" && EVERYWHERE.contains(&of.name) {
            let own = ("", "v1");
            let others = self.groups.iter().map(|(group, version)| (&**group, &**version));
            let others = others.filter(|group| *group != own);
            return Some(
                [own]
                    .into_iter()
                    .chain(others)
                    .map(|(g, v)| entry(g, v))
                    .collect(),
            );
        }
        if !of.is_kind {
            return None;
        }
        let group = match of.package {
            "meta" => "",
            package => schema().group_of(package, of.version)?,
        };
        Some(json!([entry(group, of.version)]))
    }

    fn property(&mut self, field: &'static Field, owner: &Struct) -> Value {
        let mut property = self.ty(&field.ty);
        match (&field.ty, &field.listing) {
            (Type::List(_) | Type::Strings(_), ListMergeKind::Keys(keys)) => {
                property["x-kubernetes-list-type"] = json!("map");
                property["x-kubernetes-list-map-keys"] = json!(keys);
            }
            (Type::List(_) | Type::Strings(_), ListMergeKind::Set) => {
                property["x-kubernetes-list-type"] = json!("set");
            }
            // What the lists of kinds hold is never merged, and nothing is said about it.
            (Type::List(_), ListMergeKind::Atomic) if !(field.name == "items" && is_list(owner)) => {
                property["x-kubernetes-list-type"] = json!("atomic");
            }
            (Type::Map(..), _) if field.atomic => property["x-kubernetes-map-type"] = json!("atomic"),
            (Type::Struct(of), _) if of.is_atomic() != of.get().atomic => {
                let merged = if of.is_atomic() { "atomic" } else { "granular" };
                property["x-kubernetes-map-type"] = json!(merged);
            }
            _ => {}
        }
        let strategies: Vec<_> = [
            (field.patch.merge, "merge"),
            (field.patch.retain_keys, "retainKeys"),
        ]
        .into_iter()
        .filter_map(|(is, name)| is.then_some(name))
        .collect();
        if !strategies.is_empty() {
            property["x-kubernetes-patch-strategy"] = json!(strategies.join(","));
        }
        if let Some(key) = field.patch.merge_key {
            property["x-kubernetes-patch-merge-key"] = json!(key);
        }
        if self.dialect == OpenApiVersion::V3
            && let Some(default) = default(field)
        {
            property["default"] = default;
        }
        property
    }

    /// A type where it is used: a reference, or all of it if it has no name.
    fn ty(&mut self, ty: &'static Type) -> Value {
        match ty {
            Type::Struct(of) => self.refer_struct(*of),
            Type::List(items) => json!({"type": "array", "items": self.ty(items)}),
            Type::Strings(_) => json!({"type": "array", "items": {"type": "string"}}),
            Type::Map(values, _) => json!({"type": "object", "additionalProperties": self.ty(values)}),
            Type::String(_) => json!({"type": "string"}),
            Type::Bytes => json!({"type": "string", "format": "byte"}),
            Type::Int32(_) => json!({"type": "integer", "format": "int32"}),
            Type::Int64(_) => json!({"type": "integer", "format": "int64"}),
            Type::Double => json!({"type": "number", "format": "double"}),
            Type::Bool(_) => json!({"type": "boolean"}),
            _ => match leaf::name(ty) {
                Some(name) => self.refer_leaf(name),
                None => json!({}),
            },
        }
    }
}

/// The fields a struct wants, in the order of their numbers.
fn required(of: &'static Struct) -> Vec<&'static str> {
    let mut names = Vec::new();
    for field in &of.fields {
        match &field.ty {
            Type::Struct(inner) if field.is_inline() => names.extend(required(inner.get())),
            _ if field.required => names.push(field.name),
            _ => {}
        }
    }
    names
}

/// The value a field has when it is left out. Structs that are always there are empty.
fn default(field: &Field) -> Option<Value> {
    if field.default.is_some() {
        return field.default.clone();
    }
    (matches!(field.ty, Type::Struct(_)) && !field.pointer).then(|| json!({}))
}

/// Whether a struct is the list of a kind's objects.
fn is_list(of: &Struct) -> bool {
    of.is_kind && of.name.ends_with("List")
}

/// What a type is. Lists of kinds have no words of their own.
fn described(name: &str) -> Option<String> {
    if let Some(text) = k3_descriptions::of_type(name) {
        return Some(text.to_owned());
    }
    let (_, short) = name.rsplit_once('.')?;
    match short.strip_suffix("List") {
        Some(kind) => Some(format!("{short} is a list of {kind} objects.")),
        None if short == "WatchEvent" => {
            Some("WatchEvent is a change of an object that is watched.".to_owned())
        }
        None => None,
    }
}

/// What a field is. Fields that all kinds have are the same in all of them.
fn field_described(name: &str, of: &Struct, field: &str) -> Option<&'static str> {
    k3_descriptions::of_field(name, field).or_else(|| match field {
        "kind" | "apiVersion" if of.is_kind => k3_descriptions::of_field(SOME_KIND, field),
        "metadata" if is_list(of) => Some("Standard list metadata."),
        "items" if is_list(of) => Some("The objects of the list."),
        _ => None,
    })
}
