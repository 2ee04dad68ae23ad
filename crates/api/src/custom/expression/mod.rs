//! CEL validation rules of a schema (`x-kubernetes-validations`, KEP-2876): declaration, compilation, evaluation and cost.

mod compile;
mod declare;
mod rule;
mod run;

pub(crate) use self::{
    compile::{CompiledRule, CompiledRuleTree, ExpressionScope},
    declare::declare,
    rule::Rule,
    run::validate,
};
