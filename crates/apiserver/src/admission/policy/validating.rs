//! One policy that judges, and what it says of a request.

use std::rc::Rc;

use k3_api::{admission::OptionalVariableDeclarations, strategy::Tree};
use k3_cel::{RUNTIME_COST_BUDGET, Type, Variables};
use serde_json::Value;

use super::{
    super::expression::{Composition, Conditions, Expression, Fault, Scene, Sight},
    source::Policy,
};

/// The longest message that an expression may make.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// The expressions of a policy, compiled.
#[derive(Debug)]
pub(super) struct Compiled {
    composition: Composition,
    conditions: Conditions,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression)>,
}

/// What must be true.
#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: String,
}

/// What a policy says of a request.
#[derive(Debug, Default)]
pub(super) struct Judgement {
    /// What speaks against it, each with the position of the validation.
    pub objections: Vec<(usize, Objection)>,
    pub annotations: Vec<Annotation>,
}

/// What speaks against a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Objection {
    pub message: String,
    /// The word for programs; empty for the usual one.
    pub reason: String,
}

/// What the audit log is to be told.
#[derive(Debug)]
pub(super) enum Annotation {
    /// This.
    Note { key: String, value: String },
    /// It could not be found out, and that speaks against the request.
    Failed(String),
}

// --- Compiled ---

impl Compiled {
    /// Compiles the expressions of a policy.
    pub(super) fn compile(policy: &Policy<Compiled>) -> Self {
        let spec = &policy.spec;
        let reach = OptionalVariableDeclarations {
            params: spec.has("paramKind"),
            authorizer: true,
        };
        let variables = spec.items("variables").iter();
        let composition = Composition::compile(
            reach,
            variables.map(|variable| (variable.text("name"), variable.text("expression"))),
        );
        let environment = composition.environment(reach);
        let for_messages = composition.environment(OptionalVariableDeclarations {
            authorizer: false,
            ..reach
        });
        let validation = |validation: &Value| Validation {
            expression: Expression::compile(&environment, validation.text("expression"), &["bool"]),
            message: validation.text("message").to_owned(),
            message_expression: Some(validation.text("messageExpression"))
                .filter(|source| !source.is_empty())
                .map(|source| Expression::compile(&for_messages, source, &["string"])),
            reason: validation.text("reason").to_owned(),
        };
        let annotation = |annotation: &Value| {
            let source = annotation.text("valueExpression");
            let expression = Expression::compile(&environment, source, &["string", "null_type"]);
            (annotation.text("key").to_owned(), expression)
        };
        Compiled {
            conditions: Conditions::compile(spec, &environment, policy.fails_open),
            validations: spec.items("validations").iter().map(validation).collect(),
            annotations: spec.items("auditAnnotations").iter().map(annotation).collect(),
            composition,
        }
    }

    /// What the policy says of a request. What cannot be found out speaks against it, unless the policy fails open.
    pub(super) fn judge(
        &self,
        scene: &Scene<'_>,
        params: Option<&Value>,
        namespace: Option<&Value>,
        fails_open: bool,
    ) -> Judgement {
        let failed = |why: String| Judgement {
            objections: failure(why, fails_open)
                .map(|objection| (0, objection))
                .into_iter()
                .collect(),
            ..Judgement::default()
        };
        if !self.conditions.is_empty() {
            match self.conditions.hold(scene, params, &self.composition.variables()) {
                Ok(true) => {}
                Ok(false) => return Judgement::default(),
                Err(why) => return failed(why),
            }
        }
        let objections = match self.object(scene, params, namespace, fails_open) {
            Ok(objections) => objections,
            Err(fault) => return failed(fault.to_string()),
        };
        match self.annotate(scene, params, namespace, fails_open) {
            Ok(annotations) => Judgement {
                objections,
                annotations,
            },
            Err(fault) => failed(fault.to_string()),
        }
    }

    /// Asks all validations; stops where there is nothing left to spend.
    fn object(
        &self,
        scene: &Scene<'_>,
        params: Option<&Value>,
        namespace: Option<&Value>,
        fails_open: bool,
    ) -> Result<Vec<(usize, Objection)>, Fault> {
        let variables = self.composition.variables();
        let sight = Sight {
            params,
            namespace,
            authorizer: true,
        };
        let bindings = scene.bindings(sight, &variables);
        let mut budget = RUNTIME_COST_BUDGET;
        let mut results = Vec::new();
        for validation in &self.validations {
            let result = validation.expression.evaluate(&bindings, &variables, &mut budget);
            results.push(match result {
                Ok(value) => Ok(value.as_bool() == Some(true)),
                Err(Fault::Failed(why)) => Err(why),
                Err(Fault::Budget) => return Err(Fault::Budget),
            });
        }
        if results.iter().all(|result| *result == Ok(true)) {
            return Ok(Vec::new());
        }
        let sight = Sight {
            authorizer: false,
            ..sight
        };
        let messages = self.messages(scene, sight, &mut budget);
        let mut objections = Vec::new();
        for (at, (validation, result)) in self.validations.iter().zip(results).enumerate() {
            let objection = match (result, &messages) {
                (Err(why), _) => failure(why, fails_open),
                (Ok(_), Err(fault)) => failure(format!("failed messageExpression: {fault}"), fails_open),
                (Ok(true), Ok(_)) => None,
                (Ok(false), Ok(messages)) => Some(validation.objection(messages[at].as_deref())),
            };
            objections.extend(objection.map(|objection| (at, objection)));
        }
        Ok(objections)
    }

    /// What the message expressions say; `None` where there is none, or none that can be used.
    fn messages(
        &self,
        scene: &Scene<'_>,
        sight: Sight<'_>,
        budget: &mut u64,
    ) -> Result<Vec<Option<String>>, Fault> {
        let variables = self.composition.variables();
        let bindings = scene.bindings(sight, &variables);
        let mut messages = Vec::new();
        for validation in &self.validations {
            let Some(expression) = &validation.message_expression else {
                messages.push(None);
                continue;
            };
            messages.push(match expression.evaluate(&bindings, &variables, budget) {
                Ok(value) => value
                    .as_str()
                    .map(|message| message.trim().to_owned())
                    .filter(|message| message.len() <= LONGEST_MESSAGE && !message.contains('\n')),
                Err(Fault::Failed(why)) => {
                    tracing::debug!(error = why, "a message expression failed");
                    None
                }
                Err(Fault::Budget) => return Err(Fault::Budget),
            });
        }
        Ok(messages)
    }

    fn annotate(
        &self,
        scene: &Scene<'_>,
        params: Option<&Value>,
        namespace: Option<&Value>,
        fails_open: bool,
    ) -> Result<Vec<Annotation>, Fault> {
        if self.annotations.is_empty() {
            return Ok(Vec::new());
        }
        let variables: Rc<Variables<'_>> = self.composition.variables();
        let sight = Sight {
            params,
            namespace,
            authorizer: false,
        };
        let bindings = scene.bindings(sight, &variables);
        let mut budget = RUNTIME_COST_BUDGET;
        let mut annotations = Vec::new();
        for (key, expression) in &self.annotations {
            match expression.evaluate(&bindings, &variables, &mut budget) {
                Ok(value) if value.is_null() => {}
                Ok(value) => match value.as_str().map(str::trim) {
                    Some("") => {}
                    Some(text) => annotations.push(Annotation::Note {
                        key: key.clone(),
                        value: text.to_owned(),
                    }),
                    None => {
                        annotations.push(Annotation::Failed(unsupported(&expression.source, &value.ty())));
                    }
                },
                Err(Fault::Failed(why)) => {
                    if !fails_open {
                        annotations.push(Annotation::Failed(why));
                    }
                }
                Err(Fault::Budget) => return Err(Fault::Budget),
            }
        }
        Ok(annotations)
    }
}

/// What speaks against a request of which something could not be found out.
fn failure(why: String, fails_open: bool) -> Option<Objection> {
    (!fails_open).then_some(Objection {
        message: why,
        reason: String::new(),
    })
}

fn unsupported(source: &str, found: &Type) -> String {
    format!(
        "valueExpression '{source}' resulted in unsupported return type: {found}. Return type must be either string or null."
    )
}

// --- Validation ---

impl Validation {
    /// What is said when it is not true: what its expression makes up, else its message, else the expression.
    fn objection(&self, made_up: Option<&str>) -> Objection {
        let message = [made_up.unwrap_or_default(), self.message.trim()]
            .into_iter()
            .find(|message| !message.is_empty())
            .map_or_else(
                || format!("failed expression: {}", self.expression.source.trim()),
                str::to_owned,
            );
        Objection {
            message,
            reason: self.reason.clone(),
        }
    }
}
