//! A structural schema, compiled for validation: compact, and without documentation.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/structural.go Structural
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/convert.go NewStructural

use serde_json::Value;

use super::{expression::Rule, validate::Format};
use crate::strategy::Tree;

/// A schema.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// Sorted by name.
    properties: Box<[(Box<str>, Node)]>,
    /// The positions of the properties that have a default.
    defaulted: Box<[usize]>,
    pub(super) items: Option<Box<Node>>,
    additional: Option<Box<Node>>,
    /// What most schemas do not say.
    extras: Option<Box<RareConstraints>>,
    pub(super) kind: Kind,
    flags: u16,
}

/// What a value must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Anything, or a number or a text.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// What a schema may say or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaFlag {
    Nullable,
    /// Fields it does not know are kept.
    Preserve,
    /// It is an object with kind, apiVersion and metadata.
    Embedded,
    IntOrString,
    /// `additionalProperties` is said at all.
    Additional,
    /// `additionalProperties` is `false`.
    NoAdditional,
    ExclusiveMinimum,
    ExclusiveMaximum,
    /// Apply replaces an object as a whole.
    AtomicMap,
    /// Apply takes fields that are not known.
    Open,
    /// It or one below has `not` or `oneOf`.
    Excludes,
    /// The items of a list are identified by value.
    Set,
    /// It or one below has a default.
    Defaults,
    /// It or one below has rules.
    Ruled,
}

/// What few schemas say.
#[derive(Debug, Default)]
pub(super) struct RareConstraints {
    pub(super) default: Option<Value>,
    pub(super) required: Box<[Box<str>]>,
    pub(super) options: Box<[Value]>,
    pub(super) pattern: Box<str>,
    pub(super) format: Option<Format>,
    /// The fields that identify the items of a list.
    pub(super) keys: Box<[String]>,
    pub(super) bounds: Option<Box<Bounds>>,
    pub(super) junctors: Option<Box<LogicalSchemas>>,
    pub(super) rules: Box<[Rule]>,
}

/// How much a value may be.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Bounds {
    pub(super) minimum: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<i64>,
    pub(super) max_length: Option<i64>,
    pub(super) min_items: Option<i64>,
    pub(super) max_items: Option<i64>,
    pub(super) min_properties: Option<i64>,
    pub(super) max_properties: Option<i64>,
}

/// Other schemas the same value is validated by.
#[derive(Debug, Default)]
pub(super) struct LogicalSchemas {
    pub(super) all_of: Box<[Node]>,
    pub(super) any_of: Box<[Node]>,
    pub(super) one_of: Box<[Node]>,
    pub(super) not: Option<Node>,
}

/// What a field that is not named may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AdditionalProperties<'n> {
    /// It is not said.
    Unsaid,
    /// Anything.
    Any,
    /// Nothing.
    Nothing,
    /// A value of this schema.
    Node(&'n Node),
}

/// What a schema is read for.
#[derive(Clone, Copy)]
struct SchemaReader {
    /// Whether a schema above keeps fields it does not know.
    open: bool,
}

/// What a schema describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeRole {
    /// A whole object, with kind and metadata.
    Resource,
    /// A part of one.
    Field,
}

// --- Node ---

impl Node {
    /// Reads a schema as definitions have it.
    pub(crate) fn read(schema: &Value) -> Node {
        SchemaReader { open: false }.node(schema)
    }

    /// The same for a definition that preserves unknown fields: apply takes them.
    pub(super) fn read_open(schema: &Value) -> Node {
        SchemaReader { open: true }.node(schema)
    }

    /// What it describes inside of another schema: an embedded resource, or a part of the object.
    pub(crate) fn role(&self) -> NodeRole {
        if self.has_flag(SchemaFlag::Embedded) {
            NodeRole::Resource
        } else {
            NodeRole::Field
        }
    }

    /// Whether it has a flag.
    pub(crate) fn has_flag(&self, flag: SchemaFlag) -> bool {
        self.flags & bit(flag) != 0
    }

    /// The schema of a field it names.
    pub(crate) fn property(&self, name: &str) -> Option<&Node> {
        let found = self
            .properties
            .binary_search_by(|(known, _)| (**known).cmp(name))
            .ok()?;
        Some(&self.properties[found].1)
    }

    /// The fields it names, sorted.
    pub(crate) fn properties(&self) -> impl ExactSizeIterator<Item = (&str, &Node)> {
        self.properties.iter().map(|(name, node)| (&**name, node))
    }

    /// The fields it names that have a default, sorted, with their default.
    pub(super) fn defaulted(&self) -> impl Iterator<Item = (&str, &Node, &Value)> {
        self.defaulted.iter().filter_map(|at| {
            let (name, node) = &self.properties[*at];
            Some((&**name, node, node.fallback()?))
        })
    }

    /// How it treats fields it does not name.
    pub(crate) fn additional(&self) -> AdditionalProperties<'_> {
        match &self.additional {
            Some(node) => AdditionalProperties::Node(node),
            None if !self.has_flag(SchemaFlag::Additional) => AdditionalProperties::Unsaid,
            None if self.has_flag(SchemaFlag::NoAdditional) => AdditionalProperties::Nothing,
            None => AdditionalProperties::Any,
        }
    }

    /// The schema of any field; `None` if it has none.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        self.property(name).or(self.additional.as_deref())
    }

    /// The schema of the items of a list.
    pub(crate) fn items(&self) -> Option<&Node> {
        self.items.as_deref()
    }

    /// The value it gives to what is left out.
    pub(crate) fn fallback(&self) -> Option<&Value> {
        self.extras.as_ref()?.default.as_ref()
    }

    /// The fields that identify the items of a list; empty if it is no such list.
    pub(crate) fn keys(&self) -> &[String] {
        self.extras.as_ref().map_or(&[], |extras| &extras.keys)
    }

    /// The rules it has itself.
    pub(crate) fn rules(&self) -> &[Rule] {
        self.extras.as_ref().map_or(&[], |extras| &extras.rules)
    }

    /// The schema of the values of a map.
    pub(super) fn values(&self) -> Option<&Node> {
        self.additional.as_deref()
    }

    /// The schemas that all must fit besides.
    pub(super) fn all_of(&self) -> &[Node] {
        let junctors = self.extras().and_then(|extras| extras.junctors.as_deref());
        junctors.map_or(&[], |junctors| &junctors.all_of)
    }

    pub(super) fn extras(&self) -> Option<&RareConstraints> {
        self.extras.as_deref()
    }

    fn set(&mut self, flag: SchemaFlag) {
        self.flags |= bit(flag);
    }

    fn set_any(&mut self, flag: Option<SchemaFlag>) {
        self.flags |= flag.map_or(0, bit);
    }

    /// Whether it or one below has this flag.
    fn inherits(&self, flag: SchemaFlag) -> bool {
        let junctors = self.extras().and_then(|extras| extras.junctors.as_deref());
        self.has_flag(flag)
            || self.properties().any(|(_, node)| node.has_flag(flag))
            || self.items().is_some_and(|node| node.has_flag(flag))
            || self.additional.as_ref().is_some_and(|node| node.has_flag(flag))
            || junctors.is_some_and(|junctors| {
                let lists = [&junctors.all_of, &junctors.any_of, &junctors.one_of];
                lists
                    .iter()
                    .any(|list| list.iter().any(|node| node.has_flag(flag)))
            })
    }
}

fn bit(flag: SchemaFlag) -> u16 {
    1 << flag as u16
}

// --- SchemaReader ---

impl SchemaReader {
    fn node(self, schema: &Value) -> Node {
        let mut node = Node {
            kind: Kind::read(schema.text("type")),
            ..Node::default()
        };
        let flags = [
            (SchemaFlag::Nullable, "nullable"),
            (SchemaFlag::Preserve, "x-kubernetes-preserve-unknown-fields"),
            (SchemaFlag::Embedded, "x-kubernetes-embedded-resource"),
            (SchemaFlag::IntOrString, "x-kubernetes-int-or-string"),
            (SchemaFlag::ExclusiveMinimum, "exclusiveMinimum"),
            (SchemaFlag::ExclusiveMaximum, "exclusiveMaximum"),
        ];
        for (flag, name) in flags {
            node.set_any(schema.flag(name).then_some(flag));
        }
        let below = SchemaReader {
            open: self.open || node.has_flag(SchemaFlag::Preserve),
        };
        node.properties = schema
            .entries("properties")
            .iter()
            .map(|(name, schema)| (name.as_str().into(), below.node(schema)))
            .collect();
        node.defaulted = (0..node.properties.len())
            .filter(|at| node.properties[*at].1.fallback().is_some())
            .collect();
        node.items = below.optional(schema.at("items")).map(Box::new);
        match schema.at("additionalProperties") {
            Value::Null => {}
            Value::Bool(any) => {
                node.set(SchemaFlag::Additional);
                node.set_any((!any).then_some(SchemaFlag::NoAdditional));
            }
            schema => {
                node.set(SchemaFlag::Additional);
                node.additional = below.optional(schema).map(Box::new);
            }
        }
        let open = match node.additional() {
            AdditionalProperties::Unsaid => below.open || node.properties.is_empty(),
            AdditionalProperties::Any => true,
            AdditionalProperties::Nothing | AdditionalProperties::Node(_) => false,
        };
        node.set_any(open.then_some(SchemaFlag::Open));
        let is_atomic = schema.text("x-kubernetes-map-type") == "atomic";
        node.set_any(is_atomic.then_some(SchemaFlag::AtomicMap));
        let is_set = schema.text("x-kubernetes-list-type") == "set";
        node.set_any(is_set.then_some(SchemaFlag::Set));
        node.extras = below.extras(schema, &node).map(Box::new);
        let junctors = node.extras().and_then(|extras| extras.junctors.as_deref());
        let excludes = junctors.is_some_and(|junctors| junctors.not.is_some() || !junctors.one_of.is_empty());
        let excludes = excludes || node.inherits(SchemaFlag::Excludes);
        node.set_any(excludes.then_some(SchemaFlag::Excludes));
        let defaults = node.fallback().is_some() || node.inherits(SchemaFlag::Defaults);
        node.set_any(defaults.then_some(SchemaFlag::Defaults));
        let ruled = !node.rules().is_empty() || node.inherits(SchemaFlag::Ruled);
        node.set_any(ruled.then_some(SchemaFlag::Ruled));
        node
    }

    fn optional(self, schema: &Value) -> Option<Node> {
        schema.is_object().then(|| self.node(schema))
    }

    fn extras(self, schema: &Value, node: &Node) -> Option<RareConstraints> {
        let is_map = schema.text("x-kubernetes-list-type") == "map";
        let bounds = Bounds::read(schema);
        let junctors = self.junctors(schema);
        let extras = RareConstraints {
            default: schema.get("default").filter(|value| !value.is_null()).cloned(),
            required: schema.texts("required").map(Into::into).collect(),
            options: schema.items("enum").into(),
            pattern: schema.text("pattern").into(),
            format: Format::read(schema.text("format"), node.kind),
            keys: if is_map {
                schema
                    .texts("x-kubernetes-list-map-keys")
                    .map(str::to_owned)
                    .collect()
            } else {
                Box::default()
            },
            bounds: (bounds != Bounds::default()).then(|| Box::new(bounds)),
            junctors: junctors.map(Box::new),
            rules: Rule::read_all(schema),
        };
        let said = extras.default.is_some()
            || !extras.required.is_empty()
            || !extras.options.is_empty()
            || !extras.pattern.is_empty()
            || extras.format.is_some()
            || !extras.keys.is_empty()
            || extras.bounds.is_some()
            || extras.junctors.is_some()
            || !extras.rules.is_empty();
        said.then_some(extras)
    }

    fn junctors(self, schema: &Value) -> Option<LogicalSchemas> {
        let list = |name: &str| {
            schema
                .items(name)
                .iter()
                .map(|schema| self.node(schema))
                .collect()
        };
        let junctors = LogicalSchemas {
            all_of: list("allOf"),
            any_of: list("anyOf"),
            one_of: list("oneOf"),
            not: self.optional(schema.at("not")),
        };
        let said = !junctors.all_of.is_empty()
            || !junctors.any_of.is_empty()
            || !junctors.one_of.is_empty()
            || junctors.not.is_some();
        said.then_some(junctors)
    }
}

// --- Kind ---

impl Kind {
    fn read(name: &str) -> Kind {
        match name {
            "object" => Kind::Object,
            "array" => Kind::Array,
            "string" => Kind::String,
            "integer" => Kind::Integer,
            "number" => Kind::Number,
            "boolean" => Kind::Boolean,
            _ => Kind::Any,
        }
    }

    /// Its name; empty if it may be anything.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Any => "",
            Kind::Object => "object",
            Kind::Array => "array",
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
        }
    }
}

// --- Bounds ---

impl Bounds {
    fn read(schema: &Value) -> Bounds {
        let number = |name: &str| schema.at(name).as_f64();
        let count = |name: &str| schema.int(name);
        Bounds {
            minimum: number("minimum"),
            maximum: number("maximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
        }
    }
}
