//! CEL expressions of admission webhooks and policies: variables, evaluation, results and cost limits.
//!
//! ```text
//! scene       what the variables are for one request
//! authority   what `authorizer` asks
//! conditions  the conditions under which a webhook or a policy is asked at all
//! ```
//!
//! Promises: an expression is compiled once. One that does not compile is an error of every request that needs it, not of the
//! server. No request costs more than its budget.

mod activation;
mod cel_authorizer;
mod match_conditions;

use std::rc::Rc;

use k3_api::admission::{OptionalVariableDeclarations, environment};
use k3_cel::{
    Bindings, CompileError, DeclType, Environment, EvalError, ObjectDeclType, PER_CALL_LIMIT, Program, Shape,
    Value, Variables,
};

pub(super) use self::{
    activation::{EvaluationActivation, OptionalVariables},
    match_conditions::{MatchConditionError, MatchConditions},
};

/// What is said when all expressions together cost too much.
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// A compiled expression.
#[derive(Debug)]
pub(super) struct CompiledExpression {
    pub source: String,
    program: Result<Program, ExpressionCompileError>,
}

/// Named expressions that others may use, each of which may use those before it.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/composition.go CompositedCompiler, CompileAndStoreVariables
#[derive(Debug)]
pub(super) struct CompositionEnv {
    variables: Vec<(String, CompiledExpression)>,
    declared: DeclType,
}

/// Why an expression cannot be run.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExpressionCompileError {
    #[error("compilation failed: {0}")]
    Syntax(#[source] CompileError),
    /// It gives something else than is needed.
    #[error("must evaluate to {expected} but got {found}")]
    ResultType { expected: String, found: String },
}

/// Why an expression has no result.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpressionError {
    /// It failed; others may still be asked.
    #[error("{0}")]
    Failed(String),
    /// There is nothing left to spend.
    #[error("{OUT_OF_BUDGET}")]
    Budget,
}

/// Errors as one text.
pub(super) fn joined(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

// --- CompiledExpression ---

impl CompiledExpression {
    /// Compiles an expression that must give one of some types; no types: any.
    pub(super) fn compile(environment: &Environment, source: &str, gives: &[&str]) -> Self {
        let program = Program::compile(environment, source)
            .map_err(ExpressionCompileError::Syntax)
            .and_then(|program| {
                let found = program.result_type().to_string();
                if gives.is_empty() || gives.contains(&found.as_str()) {
                    return Ok(program);
                }
                let expected = match gives {
                    [one] => (*one).to_owned(),
                    several => format!("one of [{}]", several.join(" ")),
                };
                Err(ExpressionCompileError::ResultType { expected, found })
            });
        CompiledExpression {
            source: source.to_owned(),
            program,
        }
    }

    /// Why it did not compile.
    pub(super) fn error(&self) -> Option<&ExpressionCompileError> {
        self.program.as_ref().err()
    }

    /// Runs it, and takes what it costs from the budget.
    pub(super) fn evaluate<'a>(
        &self,
        bindings: &Bindings<'a>,
        variables: &Rc<Variables<'a>>,
        budget: &mut u64,
    ) -> Result<Value<'a>, ExpressionError> {
        let program = self
            .program
            .as_ref()
            .map_err(|why| ExpressionError::Failed(format!("compilation error: {why}")))?;
        let outcome = program.evaluate(bindings, PER_CALL_LIMIT);
        for cost in [variables.take_cost(), outcome.cost] {
            *budget = budget.checked_sub(cost).ok_or(ExpressionError::Budget)?;
        }
        outcome.result.map_err(|error| {
            ExpressionError::Failed(format!("expression '{}' resulted in error: {error}", self.source))
        })
    }
}

// --- CompositionEnv ---

impl CompositionEnv {
    /// Compiles variables, given as names with expressions.
    pub(super) fn compile<'v>(
        reach: OptionalVariableDeclarations,
        variables: impl Iterator<Item = (&'v str, &'v str)>,
    ) -> Self {
        let mut fields = ObjectDeclType::new("kubernetes.variables");
        let declare = |fields: &ObjectDeclType| DeclType::object(fields.clone());
        let mut compiled = Vec::new();
        for (name, source) in variables {
            let environment = environment(reach).variable("variables", declare(&fields));
            let expression = CompiledExpression::compile(&environment, source, &[]);
            let decl = match &expression.program {
                Ok(program) => DeclType::from(program.result_type()),
                Err(_) => DeclType::from(Shape::Dyn),
            };
            fields = fields.plain(name, decl);
            compiled.push((name.to_owned(), expression));
        }
        CompositionEnv {
            variables: compiled,
            declared: declare(&fields),
        }
    }

    /// The environment of those who use the variables.
    pub(super) fn environment(&self, reach: OptionalVariableDeclarations) -> Environment {
        environment(reach).variable("variables", self.declared.clone())
    }

    /// The variables for one run: each is found out when it is asked for, once.
    pub(super) fn variables(&self) -> Rc<Variables<'_>> {
        let programs = self.variables.iter().map(|(name, expression)| {
            let program = expression
                .program
                .as_ref()
                .map_err(|error| EvalError::new(error.to_string()));
            (name.as_str(), program)
        });
        Variables::new(programs.collect())
    }
}
