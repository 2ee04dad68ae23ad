//! Compiled expressions.

// upstream: vendor/github.com/google/cel-go/cel/program.go Program, Eval, EvalDetails

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use regex::Regex;

use crate::{
    bindings::Bindings,
    check::{self, CheckedExpression},
    cost::{self, CostEstimate},
    environment::Environment,
    error::EvalError,
    evaluate::Evaluation,
    function::{self, Implementation, convert, regex as expressions},
    source::{CompileError, Issue, Source},
    syntax::{
        self,
        ast::{Ast, Id, Kind, Literal, Optionality},
    },
    types::Type,
    value::Value,
};

/// A compiled expression. Cheap to copy.
#[derive(Clone, Debug)]
pub struct Program {
    plan: Arc<ProgramPlan>,
}

/// The result of running an expression, and what it cost.
#[derive(Debug)]
pub struct EvaluationResult<'a> {
    /// The value.
    pub result: Result<Value<'a>, EvalError>,
    /// The cost, up to where it ended.
    pub cost: u64,
}

/// A tree that is ready to run.
#[derive(Debug)]
pub(crate) struct ProgramPlan {
    pub(crate) ast: Ast,
    /// Of each node: what is known of it.
    roles: Vec<Role>,
    calls: Vec<Call>,
    constants: Vec<Value<'static>>,
    result: Type,
    estimate: CostEstimate,
    variables: BTreeSet<Arc<str>>,
}

/// What is known of a node before it runs.
#[derive(Clone, Copy, Debug)]
enum Role {
    Plain,
    /// It is one of the constants.
    Constant(u32),
    /// It is one of the calls.
    Call(u32),
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
        let plan = ProgramPlan::new(checked, estimate)?;
        Ok(Program { plan: Arc::new(plan) })
    }

    /// What it gives.
    pub fn result_type(&self) -> &Type {
        &self.plan.result
    }

    /// What it can cost.
    pub fn estimate(&self) -> CostEstimate {
        self.plan.estimate
    }

    /// Whether it speaks of a variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.plan.variables.contains(variable)
    }

    /// Runs it. It ends with an error when it has cost more than the limit.
    pub fn evaluate<'a>(&self, bindings: &Bindings<'a>, limit: u64) -> EvaluationResult<'a> {
        Evaluation::new(&self.plan, bindings, limit).run()
    }
}

// --- ProgramPlan ---

impl ProgramPlan {
    /// The value of a node, if it is known.
    pub(crate) fn constant(&self, id: Id) -> Option<&Value<'static>> {
        match self.roles[id as usize] {
            Role::Constant(at) => self.constants.get(at as usize),
            _ => None,
        }
    }

    /// What a node does that is a call.
    pub(crate) fn call(&self, id: Id) -> Option<&Call> {
        match self.roles[id as usize] {
            Role::Call(at) => self.calls.get(at as usize),
            _ => None,
        }
    }

    fn set_constant(&mut self, id: Id, value: Value<'static>) {
        self.roles[id as usize] = Role::Constant(number(self.constants.len()));
        self.constants.push(value);
    }

    fn new(checked: CheckedExpression, estimate: CostEstimate) -> Result<ProgramPlan, CompileError> {
        let CheckedExpression {
            ast,
            types,
            mut overloads,
            variables,
            type_names,
        } = checked;
        let root = ast.root;
        let mut plan = ProgramPlan {
            result: types[root as usize].clone(),
            roles: vec![Role::Plain; ast.nodes.len()],
            ast,
            calls: Vec::new(),
            constants: Vec::new(),
            estimate,
            variables,
        };
        for (id, ty) in type_names {
            plan.set_constant(id, Value::Type(Arc::new(ty)));
        }
        // Children are before their parents.
        for id in 0..Id::try_from(plan.ast.nodes.len()).unwrap_or(Id::MAX) {
            let overloads = std::mem::take(&mut overloads[id as usize]);
            plan.prepare(id, &overloads)?;
        }
        Ok(plan)
    }

    fn prepare(&mut self, id: Id, overloads: &[&'static str]) -> Result<(), CompileError> {
        let constant = match &self.ast.node(id).kind {
            Kind::Literal(literal) => Some(of_literal(literal)),
            Kind::List { items, optionalities } if optionalities.is_empty() => {
                let items: Option<Vec<_>> = items.iter().map(|item| self.constant(*item).cloned()).collect();
                items.map(Value::list)
            }
            Kind::Map(entries)
                if entries
                    .iter()
                    .all(|entry| entry.optionality == Optionality::Required) =>
            {
                let mut map = crate::value::Entries::default();
                let mut known = true;
                for entry in entries {
                    match (self.constant(entry.key), self.constant(entry.value)) {
                        (Some(key), Some(value)) => known &= map.insert(key.clone(), value.clone()).is_ok(),
                        _ => known = false,
                    }
                }
                known.then(|| map.into())
            }
            Kind::Call {
                function,
                target,
                args,
            } => {
                let function = Arc::clone(function);
                let args: Vec<Id> = target.iter().chain(args).copied().collect();
                self.prepare_call(id, &function, &args, overloads)?
            }
            _ => None,
        };
        if let Some(constant) = constant {
            self.set_constant(id, constant);
        }
        Ok(())
    }

    fn prepare_call(
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
            && let Some(arg) = self.constant(*arg)
            && let Some(run) = implementation
        {
            return run(function, std::slice::from_ref(arg))
                .map(Some)
                .map_err(|error| failed(error.to_string()));
        }
        let mut membership = false;
        if function == "@in"
            && overloads == ["in_list"]
            && let Some(Value::List(list)) = self.constant(args[1])
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
            && let Some(Value::String(pattern)) = args.get(1).and_then(|arg| self.constant(*arg))
            && let Err(why) = expressions::compile(pattern)
        {
            return Err(failed(why.to_string()));
        }
        let overload = match overloads {
            [one] => one,
            _ => "",
        };
        self.roles[id as usize] = Role::Call(number(self.calls.len()));
        self.calls.push(Call {
            overload,
            implementation,
            regex: OnceLock::new(),
            membership,
        });
        Ok(None)
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("there are fewer than nodes")
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
