//! CEL, the expression language of Kubernetes.
//!
//! Promises: expressions are read, checked, run and priced as Kubernetes does it, down to the wording of errors. No
//! text makes this panic, overflow the stack or run without end. Nothing here waits or reads anything: what is outside
//! is given as values, or asked through a trait.

pub mod base64;
mod bindings;
pub mod calendar;
mod check;
mod cost;
mod decl;
mod environment;
mod error;
mod escape;
mod evaluate;
mod function;
mod program;
mod source;
mod syntax;
mod types;
mod value;

pub use self::{
    bindings::{Bindings, LazyObject, Variables},
    cost::CostEstimate,
    decl::{DeclType, ListKind, ObjectDeclType, OpaqueType, Shape, UNBOUNDED},
    environment::Environment,
    error::{ErrorKind, EvalError},
    escape::{escape, is_reserved, unescape},
    function::{
        regex::{RegexError, compile as regular_expression},
        time::Timestamp,
    },
    program::{EvaluationResult, Program},
    source::CompileError,
    types::Type,
    value::{Authorizer, Check, Decision, Entries, List, Map, ResourceCheck, Target, Text, Value},
};

/// The cost limit of one evaluation. Upstream's `PerCallLimit`.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// The cost limit of all expressions of one object or policy binding. Upstream's `RuntimeCELCostBudget`.
pub const RUNTIME_COST_BUDGET: u64 = 10_000_000;
/// The cost limit of all match conditions for one request. Upstream's `RuntimeCELCostBudgetMatchConditions`.
pub const MATCH_CONDITIONS_COST_BUDGET: u64 = 2_500_000;
