//! The rules of a schema in the language of expressions: what they see of a value, when they hold, and what they cost.

mod compile;
mod declare;
mod rule;
mod run;

pub(super) use self::{compile::Tree, run::validate};
pub(crate) use self::{
    compile::{Compiled, Scope},
    declare::declare,
    rule::Rule,
};
