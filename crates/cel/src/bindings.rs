//! What variables are when an expression runs.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/lazy/lazy.go MapValue
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/composition.go CompositionContext

use std::{
    cell::{Cell, OnceCell},
    rc::Rc,
};

use serde_json::Value as Json;

use crate::{PER_CALL_LIMIT, Program, decl::DeclType, error::EvalError, value::Value};

/// The variables of an evaluation. Cheap to copy.
#[derive(Clone, Default)]
pub struct Bindings<'a> {
    bound: Vec<(&'a str, BoundVariable<'a>)>,
}

#[derive(Clone)]
pub(crate) enum BoundVariable<'a> {
    Value(Result<Value<'a>, EvalError>),
    LazyObject(Rc<dyn LazyObject<'a> + 'a>),
}

/// An object whose fields are found out when they are asked for.
pub trait LazyObject<'a> {
    /// The value of a field, if there is one. `bindings` are those of the expression that asks.
    fn get(&self, field: &str, bindings: &Bindings<'a>) -> Option<Result<Value<'a>, EvalError>>;
}

/// Programs by name, each of them run at most once: `variables` of admission policies. They may ask for each other.
pub struct Variables<'a> {
    programs: Vec<(&'a str, Result<&'a Program, EvalError>)>,
    values: Vec<OnceCell<Result<Value<'a>, EvalError>>>,
    cost: Cell<u64>,
}

// --- Bindings ---

impl<'a> Bindings<'a> {
    /// Without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a variable that is JSON, read as it is declared.
    #[must_use]
    pub fn json(mut self, name: &'a str, json: &'a Json, decl: &DeclType) -> Self {
        self.set(name, BoundVariable::Value(Value::read(json, decl)));
        self
    }

    /// With a variable.
    #[must_use]
    pub fn value(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.set(name, BoundVariable::Value(Ok(value)));
        self
    }

    /// With an object whose fields are found out when they are asked for.
    #[must_use]
    pub fn lazy(mut self, name: &'a str, lazy: Rc<dyn LazyObject<'a> + 'a>) -> Self {
        self.set(name, BoundVariable::LazyObject(lazy));
        self
    }

    fn set(&mut self, name: &'a str, bound: BoundVariable<'a>) {
        self.bound.retain(|(other, _)| *other != name);
        self.bound.push((name, bound));
    }

    pub(crate) fn find(&self, name: &str) -> Option<&BoundVariable<'a>> {
        self.bound
            .iter()
            .find(|(bound, _)| *bound == name)
            .map(|(_, bound)| bound)
    }
}

// --- Variables ---

impl<'a> Variables<'a> {
    /// Programs, or why they could not be compiled.
    pub fn new(programs: Vec<(&'a str, Result<&'a Program, EvalError>)>) -> Rc<Self> {
        let values = programs.iter().map(|_| OnceCell::new()).collect();
        Rc::new(Variables {
            programs,
            values,
            cost: Cell::new(0),
        })
    }

    /// What running them has cost since this was asked last.
    pub fn take_cost(&self) -> u64 {
        self.cost.take()
    }
}

impl<'a> LazyObject<'a> for Variables<'a> {
    fn get(&self, field: &str, bindings: &Bindings<'a>) -> Option<Result<Value<'a>, EvalError>> {
        let at = self.programs.iter().position(|(name, _)| *name == field)?;
        if let Some(value) = self.values[at].get() {
            return Some(value.clone());
        }
        let value = match &self.programs[at].1 {
            Err(why) => Err(EvalError::new(format!(
                "composited variable {field:?} fails to compile: {why}"
            ))),
            Ok(program) => {
                let outcome = program.evaluate(bindings, PER_CALL_LIMIT);
                self.cost.set(self.cost.get().saturating_add(outcome.cost));
                outcome.result.map_err(|error| {
                    EvalError::new(format!(
                        "composited variable {field:?} fails to evaluate: {error}"
                    ))
                })
            }
        };
        // Programs can only ask for those before them, so no one has set it meanwhile.
        Some(self.values[at].get_or_init(|| value).clone())
    }
}
