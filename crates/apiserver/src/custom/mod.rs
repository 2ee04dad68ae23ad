//! Custom resources (`apiextensions.k8s.io`).
//!
//! ```text
//! served_definition  a definition whose objects are served, and the kinds of its versions
//! definitions        the registry of definitions, which follows the watch cache
//! conversion         conversion of objects between versions, by a webhook where configured
//! names              name conflicts between definitions, and the resulting conditions
//! conditions         the conditions of a definition
//! api_services       the APIServices of their groups
//! controller         writes the status of definitions, and finalizes deleted ones
//! ```
//!
//! Promises: a kind is served as soon as the commit that accepts its names is in the watch cache, whichever server wrote it, and
//! as long as its definition exists; then its watches end. The controller's writes are idempotent: two servers, or one that is
//! killed between two writes, converge.

mod api_services;
mod conditions;
mod controller;
mod conversion;
mod conversion_error;
mod definitions;
mod names;
mod served_definition;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    controller::{CustomResourceDefinitionController, mark_deleted},
    conversion::CustomResourceConverter,
    conversion_error::ConversionError,
    definitions::{DefinitionRegistry, DefinitionsGeneration, PREFIX},
    served_definition::ServedDefinition,
};
