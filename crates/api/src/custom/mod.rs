//! Custom resources: validation, defaulting, pruning and tables according to a CustomResourceDefinition.
//!
//! A [`Definition`] is what the server needs to serve them; each of its versions has [`CustomResourceStrategy`], the counterpart
//! of the compiled rules of a built-in kind. Promises: what upstream's structural schemas accept, prune, fill in and
//! refuse, with its messages; no object and no definition makes it panic or take more than linear time in the object
//! (sizes of schemas aside); a version that no one uses costs no more than the text of its schema.

mod columns;
mod correlation;
mod default;
mod definition;
pub(crate) mod expression;
mod listing;
mod meta;
mod node;
mod pattern;
mod prune;
pub mod published;
mod scale;
mod schema;
mod shape;
mod strategy;
#[cfg(test)]
mod tests;
pub(crate) mod validate;

pub use self::{
    definition::{
        BadDefinition, Conversion, Definition, DefinitionNames, DefinitionVersion, compare_versions, convert,
    },
    scale::Scale,
    strategy::{CustomResourceStrategy, ObjectSource},
};
pub(crate) use self::{
    meta::{MalformedMetadata, coerce as coerce_metadata, validate as validate_metadata},
    node::{Node, NodeRole},
    pattern::Pattern,
    prune::has_unknown_fields,
    validate::validate as validate_value,
};
pub use crate::kinds::non_structural_schema_message;
