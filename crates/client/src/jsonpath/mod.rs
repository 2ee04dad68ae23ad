//! kubectl's JSONPath templates, such as `{range .items[*]}{.metadata.name}{"\n"}{end}`.
//!
//! A path without a value yields nothing, not an error. An invalid template is rejected when it is parsed.

mod parse;
mod path;
mod template;

pub(crate) use self::{path::JsonPath, template::JsonPathTemplate};

#[cfg(test)]
mod tests;
