//! Types and fields in the type table.

use super::table::schema;
use crate::type_schema::Patch;
use serde_json::Value;

/// A type: a scalar, a well-known type with a JSON form of its own, or one made of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Text; the name error texts use (`string`, `v1.Protocol`).
    String(&'static str),
    /// A whole number of 32 bits.
    Int32(&'static str),
    /// A whole number of 64 bits.
    Int64(&'static str),
    /// True or false.
    Bool(&'static str),
    /// A floating point number.
    Double,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A moment, to the second in JSON.
    Time,
    /// A moment, to the microsecond in JSON.
    MicroTime,
    /// A span of time such as `1h30m0s`.
    Duration,
    /// An amount such as `100m` or `2Gi`.
    Quantity,
    /// A whole number of 32 bits, or text.
    IntOrString,
    /// Any object, kept as it is.
    RawExtension,
    /// The set of fields a manager owns, kept as it is.
    FieldsV1,
    /// Any JSON, kept as it is.
    Json,
    /// A JSON schema, or a boolean.
    SchemaOrBool,
    /// A JSON schema, or a list of them.
    SchemaOrArray,
    /// A JSON schema, or a list of strings.
    SchemaOrStrings,
    /// A list of strings that is a message of its own in protobuf; the name error texts use.
    Strings(&'static str),
    /// Named fields.
    Struct(StructRef),
    /// A list.
    List(Box<Type>),
    /// Any keys, all values of one type; the name error texts use, if it has one.
    Map(Box<Type>, Option<&'static str>),
}

/// A struct of the table, and how it is merged where it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructRef {
    /// The index in the table.
    pub(super) index: u32,
    /// Whether it is merged otherwise here than its type declares.
    pub(super) atomic: Option<bool>,
}

/// A type with named fields.
#[derive(Debug)]
pub struct Struct {
    /// Its name, such as `PodSpec`.
    pub name: &'static str,
    /// Its package, such as `core`.
    pub package: &'static str,
    /// The version of its package, such as `v1`.
    pub version: &'static str,
    /// Whether it carries kind and apiVersion.
    pub is_kind: bool,
    /// Whether apply replaces it as a whole.
    pub atomic: bool,
    /// Its own fields, sorted by protobuf number. A struct that stands inline is one field here.
    pub fields: Vec<Field>,
    /// The fields of its JSON form, those of inline structs included: name, struct and position in its
    /// `fields`. Sorted by the length of the name, then by the name: most names differ from others in their length, and every field
    /// of every object is looked up.
    pub(super) names: Vec<(&'static str, u32, u32)>,
    /// The fields of its JSON form that are written even if they are zero.
    pub(super) shown: Vec<(u32, u32)>,
}

/// A field.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a mark of the table, independent of the others"
)]
pub struct Field {
    /// Its JSON name; empty if its own fields stand inline.
    pub name: &'static str,
    /// Its protobuf number; 0 if protobuf does not carry it.
    pub number: u32,
    /// The type of its value.
    pub ty: Type,
    /// Whether it may be absent where its zero value is not.
    pub pointer: bool,
    /// Whether its zero value is written. Structs are, whatever this is, unless `omit_zero`.
    pub shown: bool,
    /// Whether the zero value of a struct-like type is left out.
    pub omit_zero: bool,
    /// Whether validation wants it.
    pub required: bool,
    /// How two lists are merged.
    pub listing: ListMergeKind,
    /// Whether apply replaces a map as a whole.
    pub atomic: bool,
    /// What a strategic merge patch does with it.
    pub patch: Patch<'static>,
    /// The value it has when it is left out.
    pub default: Option<Value>,
}

/// How two lists are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListMergeKind {
    /// Replaced as a whole.
    #[default]
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Objects, identified by these fields.
    Keys(Vec<String>),
}

// --- StructRef ---

impl StructRef {
    /// The struct.
    pub fn get(self) -> &'static Struct {
        schema().at(self.index)
    }
}

// --- Struct ---

impl Struct {
    /// The field with this JSON name, be it its own or that of a struct that stands inline.
    pub fn named(&self, name: &str) -> Option<&'static Field> {
        self.find(name).map(|(_, field)| field)
    }

    /// The same, with a number that no other field of the struct has; below 128.
    pub fn find(&self, name: &str) -> Option<(usize, &'static Field)> {
        let order = |known: &str| known.len().cmp(&name.len()).then_with(|| known.cmp(name));
        let found = self.names.binary_search_by(|(known, ..)| order(known)).ok()?;
        let (_, owner, position) = self.names[found];
        Some((found, schema().field_at(owner, position)))
    }

    /// The fields of the JSON form, sorted by name.
    pub fn all(&self) -> impl Iterator<Item = &'static Field> {
        let mut names = self.names.clone();
        names.sort_unstable();
        names
            .into_iter()
            .map(|(_, owner, position)| schema().field_at(owner, position))
    }

    /// The fields of the JSON form that are written even if they are zero.
    pub fn always(&self) -> impl Iterator<Item = &'static Field> {
        self.shown
            .iter()
            .map(|&(owner, position)| schema().field_at(owner, position))
    }

    /// Its own field with this protobuf number.
    pub fn numbered(&self, number: u32) -> Option<&Field> {
        let found = self
            .fields
            .binary_search_by_key(&number, |field| field.number)
            .ok()?;
        Some(&self.fields[found]).filter(|field| field.number != 0)
    }

    /// The name error texts use, such as `v1.PodSpec`.
    pub fn go_name(&self) -> String {
        format!("{}.{}", self.version, self.name)
    }
}

// --- Field ---

impl Field {
    /// Whether its own fields stand inline.
    pub fn is_inline(&self) -> bool {
        self.name.is_empty()
    }

    /// Whether an object always has it, be it zero.
    pub fn is_always(&self) -> bool {
        if self.pointer {
            return self.shown;
        }
        self.shown || (self.ty.is_struct_like() && !self.omit_zero)
    }
}

// --- Type ---

impl Type {
    /// Whether "left out if empty" never applies to it, since it is not empty: structs, and the
    /// well-known types that are structs underneath.
    pub fn is_struct_like(&self) -> bool {
        matches!(
            self,
            Self::Struct(_)
                | Self::Time
                | Self::MicroTime
                | Self::Duration
                | Self::Quantity
                | Self::IntOrString
                | Self::RawExtension
                | Self::FieldsV1
                | Self::Json
                | Self::SchemaOrBool
                | Self::SchemaOrArray
                | Self::SchemaOrStrings
        )
    }

    /// The name error texts use, such as `[]v1.Container` or `map[string]string`.
    pub fn go_name(&self) -> String {
        match self {
            Self::String(name)
            | Self::Int32(name)
            | Self::Int64(name)
            | Self::Bool(name)
            | Self::Strings(name)
            | Self::Map(_, Some(name)) => (*name).to_owned(),
            Self::Double => "float64".to_owned(),
            Self::Bytes => "[]uint8".to_owned(),
            Self::Time => "v1.Time".to_owned(),
            Self::MicroTime => "v1.MicroTime".to_owned(),
            Self::Duration => "v1.Duration".to_owned(),
            Self::Quantity => "resource.Quantity".to_owned(),
            Self::IntOrString => "intstr.IntOrString".to_owned(),
            Self::RawExtension => "runtime.RawExtension".to_owned(),
            Self::FieldsV1 => "v1.FieldsV1".to_owned(),
            Self::Json => "v1.JSON".to_owned(),
            Self::SchemaOrBool => "v1.JSONSchemaPropsOrBool".to_owned(),
            Self::SchemaOrArray => "v1.JSONSchemaPropsOrArray".to_owned(),
            Self::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray".to_owned(),
            Self::Struct(of) => of.get().go_name(),
            Self::List(items) => format!("[]{}", items.go_name()),
            Self::Map(values, None) => format!("map[string]{}", values.go_name()),
        }
    }
}
