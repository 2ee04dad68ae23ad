//! Kinds that users define.
//!
//! ```text
//! served        a definition whose objects are served, and the kinds of its versions
//! definitions   the table of them, which follows the feed of the caches
//! conversion    objects from one version to another, by a webhook where the definition says so
//! names         which names a definition may have, and what its status says of them
//! conditions    the conditions of a definition
//! api_services  the API services of their groups
//! keeper        writes the status of definitions, and ends those that are deleted
//! ```
//!
//! Promises: a kind is served the moment the commit that accepts its names is in the caches, whichever server made it, and no
//! longer than its definition is there; then its watches end. What the keeper writes it would write again: two servers, or one
//! that ends between two writes, come to the same end.

mod api_services;
mod conditions;
mod conversion;
mod definitions;
mod keeper;
mod names;
mod served;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    conversion::{ConversionError, Converter},
    definitions::{Definitions, PREFIX},
    keeper::{Keeper, mark_deleted},
    served::Served,
};
