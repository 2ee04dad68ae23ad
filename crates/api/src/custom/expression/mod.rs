//! The rules of a schema in the language of expressions: what they see of a value, when they hold, and what they cost.

mod compile;
mod declare;
mod rule;
mod run;

pub(crate) use self::{
    compile::{Compiled, Scope, Tree},
    declare::declare,
    rule::Rule,
    run::validate,
};
