//! Compiled expressions.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, OnceLock},
};

use regex::Regex;

use crate::{
    bindings::Bindings,
    check::{self, Checked},
    cost::{self, Estimate},
    environment::Environment,
    error::EvalError,
    evaluate::Evaluation,
    function::{self, Implementation, convert, regex as expressions},
    source::{CompileError, Issue, Source},
    syntax::{
        self,
        ast::{Ast, Id, Kind, Literal},
    },
    types::Type,
    value::Value,
};

/// A compiled expression. Cheap to copy.
#[derive(Clone, Debug)]
pub struct Program {
    plan: Arc<Plan>,
}

/// What came of running an expression, and what it cost.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// The value.
    pub result: Result<Value<'a>, EvalError>,
    /// The cost, up to where it ended.
    pub cost: u64,
}

/// A tree that is ready to run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) ast: Ast,
    pub(crate) calls: HashMap<Id, Call>,
    /// Nodes whose value is known.
    pub(crate) constants: HashMap<Id, Value<'static>>,
    result: Type,
    estimate: Estimate,
    variables: BTreeSet<Arc<str>>,
}

/// What a call does.
#[derive(Debug)]
pub(crate) struct Call {
    /// Which overload it is, if there is only one that it can be.
    pub(crate) overload: &'static str,
    pub(crate) implementation: Option<Implementation>,
    /// The regular expression of the first time it was run: most are constant.
    pub(crate) regex: OnceLock<(Box<str>, Regex)>,
    /// Whether it asks for one of constants that are simple: that costs nothing.
    pub(crate) membership: bool,
}

// --- Program ---

impl Program {
    /// Compiles an expression.
    pub fn compile(environment: &Environment, text: &str) -> Result<Program, CompileError> {
        let source = Source::new(text);
        let failed = |issues: Vec<Issue>| CompileError::new(&source, issues);
        let ast = syntax::parse(&source, environment.macros()).map_err(failed)?;
        let checked = check::check(environment, ast).map_err(failed)?;
        let estimate = cost::estimate(environment, &checked);
        let plan = Plan::new(checked, estimate)?;
        Ok(Program { plan: Arc::new(plan) })
    }

    /// What it gives.
    pub fn result_type(&self) -> &Type {
        &self.plan.result
    }

    /// What it can cost.
    pub fn estimate(&self) -> Estimate {
        self.plan.estimate
    }

    /// Whether it speaks of a variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.plan.variables.contains(variable)
    }

    /// Runs it. It ends with an error when it has cost more than the limit.
    pub fn evaluate<'a>(&self, bindings: &Bindings<'a>, limit: u64) -> Outcome<'a> {
        Evaluation::new(&self.plan, bindings, limit).run()
    }
}

// --- Plan ---

impl Plan {
    fn new(checked: Checked, estimate: Estimate) -> Result<Plan, CompileError> {
        let Checked { ast, types, mut overloads, variables, type_names } = checked;
        let root = ast.root;
        let mut plan = Plan {
            result: types[root as usize].clone(),
            ast,
            calls: HashMap::new(),
            constants: type_names.into_iter().map(|(id, ty)| (id, Value::Type(Arc::new(ty)))).collect(),
            estimate,
            variables,
        };
        // Children come before their parents, but for what macros put together: those are no constants.
        for id in 0..Id::try_from(plan.ast.nodes.len()).unwrap_or(Id::MAX) {
            let overloads = std::mem::take(&mut overloads[id as usize]);
            plan.prepare(id, &overloads)?;
        }
        Ok(plan)
    }

    fn prepare(&mut self, id: Id, overloads: &[&'static str]) -> Result<(), CompileError> {
        let constant = match &self.ast.node(id).kind {
            Kind::Literal(literal) => Some(of_literal(literal)),
            Kind::List { items, optional } if optional.is_empty() => {
                let items: Option<Vec<_>> = items.iter().map(|item| self.constants.get(item).cloned()).collect();
                items.map(Value::list)
            }
            Kind::Map(entries) if entries.iter().all(|entry| !entry.optional) => {
                let mut map = crate::value::Entries::default();
                let mut known = true;
                for entry in entries {
                    match (self.constants.get(&entry.key), self.constants.get(&entry.value)) {
                        (Some(key), Some(value)) => known &= map.insert(key.clone(), value.clone()).is_ok(),
                        _ => known = false,
                    }
                }
                known.then(|| map.into())
            }
            Kind::Call { function, target, args } => {
                let function = Arc::clone(function);
                let args: Vec<Id> = target.iter().chain(args).copied().collect();
                self.call(id, &function, &args, overloads)?
            }
            _ => None,
        };
        if let Some(constant) = constant {
            self.constants.insert(id, constant);
        }
        Ok(())
    }

    fn call(
        &mut self,
        id: Id,
        function: &str,
        args: &[Id],
        overloads: &[&'static str],
    ) -> Result<Option<Value<'static>>, CompileError> {
        let implementation = function::implementation(function);
        let failed = |why: String| CompileError::instantiation(why);
        if convert::is_conversion(function)
            && let [arg] = args
            && let Some(arg) = self.constants.get(arg)
            && let Some(run) = implementation
        {
            return run(function, std::slice::from_ref(arg)).map(Some).map_err(|error| failed(error.to_string()));
        }
        let mut membership = false;
        if function == "@in"
            && overloads == ["in_list"]
            && let Some(Value::List(list)) = self.constants.get(&args[1])
        {
            if list.is_empty() {
                return Ok(Some(Value::Bool(false)));
            }
            membership = list.iter().flatten().all(|item| {
                matches!(
                    item,
                    Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_)
                )
            });
        }
        if matches!(function, "find" | "findAll")
            && let Some(Value::String(pattern)) = args.get(1).and_then(|arg| self.constants.get(arg))
            && let Err(why) = expressions::compile(pattern)
        {
            return Err(failed(why));
        }
        let overload = match overloads {
            [one] => one,
            _ => "",
        };
        self.calls.insert(id, Call { overload, implementation, regex: OnceLock::new(), membership });
        Ok(None)
    }
}

fn of_literal(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(truth) => Value::Bool(*truth),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::String(text) => Value::text(Arc::clone(text)),
        Literal::Bytes(bytes) => Value::Bytes(Arc::clone(bytes)),
    }
}
