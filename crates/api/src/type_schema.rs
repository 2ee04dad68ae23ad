//! The schema of a type as patches, apply and decoding need it.
//!
//! Built-in types and the schemas of custom resources both show themselves this way.

use serde_json::Value;

/// A type.
pub trait TypeSchema: Send + Sync {
    /// What it looks like, one level deep.
    fn shape(&self) -> Shape<'_>;

    /// Which scalars it takes, where the shape is a scalar.
    fn scalar(&self) -> ScalarKind {
        ScalarKind::Any
    }
}

/// Which scalars a type takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScalarKind {
    /// Numbers, strings and booleans: quantities, `IntOrString`.
    #[default]
    Any,
    /// Integers and floats.
    Number,
    /// Strings, times and bytes too.
    String,
    /// `true` and `false`.
    Boolean,
}

/// A type, one level deep.
#[derive(Clone, Copy)]
pub enum Shape<'s> {
    /// A number, a string, a boolean, or something that is compared and replaced as one.
    Scalar,
    /// Nothing is known: the value itself decides. Objects are merged by key, lists are replaced.
    Unknown,
    /// Named fields, each with a type of its own.
    Struct(&'s dyn Struct),
    /// Any keys, all values of one type.
    Map {
        /// The type of the values.
        values: &'s dyn TypeSchema,
        /// Whether it is replaced as a whole.
        atomic: bool,
    },
    /// A list.
    List {
        /// The type of the items.
        items: &'s dyn TypeSchema,
        /// How two of them are merged.
        kind: ListKind<'s>,
    },
}

/// How lists are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind<'s> {
    /// Replaced as a whole.
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Objects, identified by the values of these fields.
    Map(&'s [String]),
}

/// A type with named fields.
pub trait Struct: Send + Sync {
    /// What it is called, as in `PodSpec`; empty if it has no name.
    fn name(&self) -> &str;

    /// The type of a field; `None` if there is no such field.
    fn field(&self, name: &str) -> Option<&dyn TypeSchema>;

    /// The value a field has when it is left out, as far as it matters for telling list items apart.
    fn default_of(&self, name: &str) -> Option<&Value>;

    /// What a strategic merge patch does with a field.
    fn patch(&self, name: &str) -> Patch<'_>;

    /// Whether it is replaced as a whole.
    fn is_atomic(&self) -> bool;

    /// Whether fields that are not known may be there.
    fn keeps_unknown(&self) -> bool;
}

/// What a strategic merge patch does with a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patch<'s> {
    /// Lists are merged rather than replaced.
    pub merge: bool,
    /// Objects are replaced rather than merged.
    pub replace: bool,
    /// Fields of the object that the patch does not name are removed.
    pub retain_keys: bool,
    /// The field that identifies the items of a merged list of objects.
    pub merge_key: Option<&'s str>,
}
