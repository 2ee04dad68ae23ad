//! What variables are declared as: how their JSON is read, and how large it can be.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use crate::{escape::escape, types::Type};

/// How many there can be of what has no bound.
pub const UNBOUNDED: u64 = i64::MAX as u64;

/// A declared type.
#[derive(Clone, Debug)]
pub struct DeclType {
    /// What it looks like.
    pub shape: Shape,
    /// The most bytes of a text, items of a list or entries of a map. Estimates are made with it; what has no size of
    /// its own, as numbers and objects, counts as nothing.
    pub max: u64,
}

/// What declared values look like.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Anything; JSON is read as it comes, whole numbers as `int`.
    Dyn,
    /// Null.
    Null,
    /// A truth.
    Bool,
    /// A whole number.
    Int,
    /// A whole number that is not negative; only given as a value.
    Uint,
    /// A number.
    Double,
    /// A text.
    String,
    /// Bytes; JSON has them as base64.
    Bytes,
    /// A time; JSON has it as RFC 3339.
    Timestamp,
    /// A day; JSON has it as `2006-01-02`. In expressions it is a time.
    Date,
    /// A span of time; JSON has it as `1h30m`.
    Duration,
    /// A whole number or a text. Expressions are not checked for which.
    IntOrString,
    /// A type.
    Type,
    /// Something with functions of its own; only given as a value.
    Opaque(OpaqueType),
    /// Something that may be absent.
    Optional(Arc<DeclType>),
    /// A list of items.
    List(Arc<DeclType>, ListKind),
    /// A map from keys to values; JSON has texts as keys.
    Map(Arc<DeclType>, Arc<DeclType>),
    /// An object with named fields.
    Object(Arc<ObjectDeclType>),
}

/// What items of a list are to each other: it decides when lists are equal and how they are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Items in their order.
    Atomic,
    /// Items of which each is there once, in any order.
    Set,
    /// Objects that are told apart by these properties, in any order.
    Map(Arc<[String]>),
}

/// What is known by functions alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpaqueType {
    /// An amount.
    Quantity,
    /// An IP address.
    Ip,
    /// A range of IP addresses.
    Cidr,
    /// A URL.
    Url,
    /// A semantic version.
    Semver,
    /// A named format of texts.
    Format,
    /// Whom to ask what is allowed.
    Authorizer,
    /// A question about a path.
    PathCheck,
    /// The beginning of a question about a resource.
    GroupCheck,
    /// A question about a resource.
    ResourceCheck,
    /// An answer.
    Decision,
}

/// An object with named fields.
#[derive(Clone, Debug)]
pub struct ObjectDeclType {
    name: String,
    /// Shared: every expression of a policy is compiled with all of its variables.
    fields: Arc<BTreeMap<Box<str>, Field>>,
}

/// A field of an object.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The property of JSON.
    pub(crate) property: Box<str>,
    /// What it is.
    pub(crate) decl: DeclType,
}

/// The name of objects that have none of their own yet.
const UNNAMED: &str = "object";

// --- DeclType ---

impl DeclType {
    /// A declared type of bounded size.
    pub fn new(shape: Shape, max: u64) -> Self {
        DeclType { shape, max }
    }

    /// A list.
    pub fn list(items: DeclType, kind: ListKind, max: u64) -> Self {
        DeclType::new(Shape::List(Arc::new(items), kind), max)
    }

    /// A map from texts.
    pub fn map(values: DeclType, max: u64) -> Self {
        DeclType::new(Shape::Map(Arc::new(Shape::String.into()), Arc::new(values)), max)
    }

    /// An object.
    pub fn object(object: ObjectDeclType) -> Self {
        Shape::Object(Arc::new(object)).into()
    }

    /// What estimates take for its size.
    pub(crate) fn size(&self) -> u64 {
        let sized = !matches!(
            self.shape,
            Shape::Null
                | Shape::Bool
                | Shape::Int
                | Shape::Uint
                | Shape::Double
                | Shape::Type
                | Shape::Object(_)
        );
        if sized || self.max != UNBOUNDED {
            self.max
        } else {
            0
        }
    }

    /// What expressions see.
    pub fn ty(&self) -> Type {
        match &self.shape {
            Shape::Dyn | Shape::IntOrString => Type::Dyn,
            Shape::Null => Type::Null,
            Shape::Bool => Type::Bool,
            Shape::Int => Type::Int,
            Shape::Uint => Type::Uint,
            Shape::Double => Type::Double,
            Shape::String => Type::String,
            Shape::Bytes => Type::Bytes,
            Shape::Timestamp | Shape::Date => Type::Timestamp,
            Shape::Duration => Type::Duration,
            Shape::Type => Type::Type(None),
            Shape::Opaque(opaque) => Type::Opaque(*opaque),
            Shape::Optional(inner) => Type::Optional(Arc::new(inner.ty())),
            Shape::List(items, _) => Type::List(Arc::new(items.ty())),
            Shape::Map(keys, values) => Type::Map(Arc::new(keys.ty()), Arc::new(values.ty())),
            Shape::Object(object) => Type::Object(Arc::clone(object)),
        }
    }

    /// The same with names for the objects in it that have none: types are told apart by their names.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let shape = match self.shape {
            Shape::List(items, kind) => {
                Shape::List(Arc::new(owned(&items).named(&format!("{name}.@idx"))), kind)
            }
            Shape::Map(keys, values) => {
                Shape::Map(keys, Arc::new(owned(&values).named(&format!("{name}.@elem"))))
            }
            Shape::Object(object) => {
                let name = if object.name == UNNAMED {
                    name
                } else {
                    &object.name
                };
                let fields = object.fields.iter().map(|(field, inner)| {
                    let decl = inner.decl.clone().named(&format!("{name}.{field}"));
                    (
                        field.clone(),
                        Field {
                            property: inner.property.clone(),
                            decl,
                        },
                    )
                });
                Shape::Object(Arc::new(ObjectDeclType {
                    name: name.to_owned(),
                    fields: Arc::new(fields.collect()),
                }))
            }
            other => other,
        };
        DeclType { shape, max: self.max }
    }
}

fn owned(decl: &Arc<DeclType>) -> DeclType {
    DeclType::clone(decl)
}

impl From<Shape> for DeclType {
    /// Without a size: it counts as nothing in estimates.
    fn from(shape: Shape) -> Self {
        DeclType { shape, max: 0 }
    }
}

impl From<&Type> for DeclType {
    /// What results of a program are declared as.
    fn from(ty: &Type) -> Self {
        match ty {
            Type::Null => Shape::Null,
            Type::Bool => Shape::Bool,
            Type::Int => Shape::Int,
            Type::Uint => Shape::Uint,
            Type::Double => Shape::Double,
            Type::String => Shape::String,
            Type::Bytes => Shape::Bytes,
            Type::Timestamp => Shape::Timestamp,
            Type::Duration => Shape::Duration,
            Type::Type(_) => Shape::Type,
            Type::Opaque(opaque) => Shape::Opaque(*opaque),
            Type::Optional(inner) => Shape::Optional(Arc::new(DeclType::from(&**inner))),
            Type::List(items) => Shape::List(Arc::new(DeclType::from(&**items)), ListKind::Atomic),
            Type::Map(keys, values) => Shape::Map(
                Arc::new(DeclType::from(&**keys)),
                Arc::new(DeclType::from(&**values)),
            ),
            Type::Object(object) => Shape::Object(Arc::clone(object)),
            Type::Dyn | Type::Error | Type::Message(_) | Type::Param(_) => Shape::Dyn,
        }
        .into()
    }
}

// --- ObjectDeclType ---

impl Default for ObjectDeclType {
    fn default() -> Self {
        ObjectDeclType::new(UNNAMED)
    }
}

impl ObjectDeclType {
    /// An object without fields. With [`DeclType::named`] one with the default name gets another.
    pub fn new(name: &str) -> Self {
        ObjectDeclType {
            name: name.to_owned(),
            fields: Arc::default(),
        }
    }

    /// With a property. One whose name cannot be a field's is left out.
    #[must_use]
    pub fn field(mut self, property: &str, decl: impl Into<DeclType>) -> Self {
        if let Some(field) = escape(property) {
            Arc::make_mut(&mut self.fields).insert(
                Cow::into_owned(field).into(),
                Field {
                    property: property.into(),
                    decl: decl.into(),
                },
            );
        }
        self
    }

    /// With a property whose name stands for itself, even if it is a word of the language: types that are not made from schemas.
    #[must_use]
    pub fn plain(mut self, property: &str, decl: impl Into<DeclType>) -> Self {
        Arc::make_mut(&mut self.fields).insert(
            property.into(),
            Field {
                property: property.into(),
                decl: decl.into(),
            },
        );
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a field is, by the name that expressions use.
    pub fn get(&self, field: &str) -> Option<&DeclType> {
        self.fields.get(field).map(|field| &field.decl)
    }

    pub(crate) fn find(&self, field: &str) -> Option<&Field> {
        self.fields.get(field)
    }

    /// The field of a property.
    pub(crate) fn of_property(&self, property: &str) -> Option<(&str, &Field)> {
        let plain = self
            .fields
            .get_key_value(property)
            .filter(|(_, field)| &*field.property == property);
        let found = match plain {
            Some(found) => Some(found),
            None => self.fields.get_key_value(&*escape(property)?),
        };
        found.map(|(name, field)| (&**name, field))
    }
}
