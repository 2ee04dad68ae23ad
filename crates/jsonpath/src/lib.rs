//! kubectl's dialect of JSONPath: `.status.conditions[?(@.type=="Ready")].status`, and templates of it.
//!
//! Promises: texts are accepted and rejected like client-go's parser, with its messages. No text makes this panic,
//! overflow the stack or find values without limit.

mod error;
mod evaluate;
mod filter;
mod parse;
mod path;
mod template;

pub use self::{
    error::{EvaluationError, ParseError},
    path::JsonPath,
    template::Template,
};

#[cfg(test)]
mod tests;
