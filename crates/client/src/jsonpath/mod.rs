//! kubectl's paths: texts with paths in braces, such as `{range .items[*]}{.metadata.name}{"\n"}{end}`.
//!
//! Promises: what is not there is nothing, not a failure; a template that makes no sense is refused when it is read.

mod parse;
mod path;
mod template;

pub(crate) use self::{path::Path, template::Template};

#[cfg(test)]
mod tests;
