//! The built-in kinds as data: names, scope, verbs, subresources.
//!
//! Promises: every resource of the stable API is here, in the order discovery lists them; a kind is found by
//! group, version and kind, or by group, version and resource.

mod registry;
#[cfg(test)]
mod tests;
mod text;

pub use self::registry::{Kind, Persistence, Registry, Scope, Subresource, builtin};
