//! Validation of a request by one `ValidatingAdmissionPolicy`.

use std::rc::Rc;

use k3_api::{admission::OptionalVariableDeclarations, strategy::Tree};
use k3_cel::{RUNTIME_COST_BUDGET, Type, Variables};
use serde_json::Value;

use super::{
    super::{
        expression::{
            CompiledExpression, CompositionEnv, EvaluationActivation, ExpressionError, MatchConditions,
            OptionalVariables,
        },
        failure_policy::FailurePolicy,
    },
    policy_source::CompiledPolicy,
};

/// The longest message that an expression may make.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// The expressions of a policy, compiled.
#[derive(Debug)]
pub(super) struct CompiledValidatingPolicy {
    composition: CompositionEnv,
    conditions: MatchConditions,
    validations: Vec<CompiledValidation>,
    annotations: Vec<(String, CompiledExpression)>,
}

/// What must be true.
#[derive(Debug)]
struct CompiledValidation {
    expression: CompiledExpression,
    message: String,
    message_expression: Option<CompiledExpression>,
    reason: String,
}

/// The result of evaluating one policy.
#[derive(Debug, Default)]
pub(super) struct ValidateResult {
    /// What speaks against it, each with the position of the validation.
    pub objections: Vec<(usize, PolicyDecision)>,
    pub annotations: Vec<PolicyAuditAnnotation>,
}

/// What speaks against a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PolicyDecision {
    pub message: String,
    /// The word for programs; empty for the usual one.
    pub reason: String,
}

/// A value for the audit log.
#[derive(Debug)]
pub(super) enum PolicyAuditAnnotation {
    /// This.
    Note { key: String, value: String },
    /// It could not be found out, and that speaks against the request.
    Failed(String),
}

// --- CompiledValidatingPolicy ---

impl CompiledValidatingPolicy {
    /// Compiles the expressions of a policy.
    pub(super) fn compile(policy: &CompiledPolicy<CompiledValidatingPolicy>) -> Self {
        let spec = &policy.spec;
        let reach = OptionalVariableDeclarations {
            params: spec.has("paramKind"),
            authorizer: true,
        };
        let variables = spec.items("variables").iter();
        let composition = CompositionEnv::compile(
            reach,
            variables.map(|variable| (variable.text("name"), variable.text("expression"))),
        );
        let environment = composition.environment(reach);
        let for_messages = composition.environment(OptionalVariableDeclarations {
            authorizer: false,
            ..reach
        });
        let validation = |validation: &Value| CompiledValidation {
            expression: CompiledExpression::compile(&environment, validation.text("expression"), &["bool"]),
            message: validation.text("message").to_owned(),
            message_expression: Some(validation.text("messageExpression"))
                .filter(|source| !source.is_empty())
                .map(|source| CompiledExpression::compile(&for_messages, source, &["string"])),
            reason: validation.text("reason").to_owned(),
        };
        let annotation = |annotation: &Value| {
            let source = annotation.text("valueExpression");
            let expression = CompiledExpression::compile(&environment, source, &["string", "null_type"]);
            (annotation.text("key").to_owned(), expression)
        };
        CompiledValidatingPolicy {
            conditions: MatchConditions::compile(spec, &environment, policy.failure_policy),
            validations: spec.items("validations").iter().map(validation).collect(),
            annotations: spec.items("auditAnnotations").iter().map(annotation).collect(),
            composition,
        }
    }

    /// Evaluates the policy. Errors deny the request unless `failurePolicy` is `Ignore`.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go Validate
    pub(super) fn validate(
        &self,
        scene: &EvaluationActivation<'_>,
        params: Option<&Value>,
        namespace: Option<&Value>,
        failure_policy: FailurePolicy,
    ) -> ValidateResult {
        let failed = |why: String| ValidateResult {
            objections: failure(why, failure_policy)
                .map(|objection| (0, objection))
                .into_iter()
                .collect(),
            ..ValidateResult::default()
        };
        if !self.conditions.is_empty() {
            match self.conditions.hold(scene, params, &self.composition.variables()) {
                Ok(true) => {}
                Ok(false) => return ValidateResult::default(),
                Err(error) => return failed(error.to_string()),
            }
        }
        let objections = match self.object(scene, params, namespace, failure_policy) {
            Ok(objections) => objections,
            Err(error) => return failed(error.to_string()),
        };
        match self.annotate(scene, params, namespace, failure_policy) {
            Ok(annotations) => ValidateResult {
                objections,
                annotations,
            },
            Err(error) => failed(error.to_string()),
        }
    }

    /// Asks all validations; stops where there is nothing left to spend.
    fn object(
        &self,
        scene: &EvaluationActivation<'_>,
        params: Option<&Value>,
        namespace: Option<&Value>,
        failure_policy: FailurePolicy,
    ) -> Result<Vec<(usize, PolicyDecision)>, ExpressionError> {
        let variables = self.composition.variables();
        let sight = OptionalVariables {
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
                Err(ExpressionError::Failed(why)) => Err(why),
                Err(ExpressionError::Budget) => return Err(ExpressionError::Budget),
            });
        }
        if results.iter().all(|result| *result == Ok(true)) {
            return Ok(Vec::new());
        }
        let sight = OptionalVariables {
            authorizer: false,
            ..sight
        };
        let messages = self.messages(scene, sight, &mut budget);
        let mut objections = Vec::new();
        for (at, (validation, result)) in self.validations.iter().zip(results).enumerate() {
            let objection = match (result, &messages) {
                (Err(why), _) => failure(why, failure_policy),
                (Ok(_), Err(error)) => failure(format!("failed messageExpression: {error}"), failure_policy),
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
        scene: &EvaluationActivation<'_>,
        sight: OptionalVariables<'_>,
        budget: &mut u64,
    ) -> Result<Vec<Option<String>>, ExpressionError> {
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
                Err(ExpressionError::Failed(why)) => {
                    tracing::debug!(error = why, "messageExpression failed");
                    None
                }
                Err(ExpressionError::Budget) => return Err(ExpressionError::Budget),
            });
        }
        Ok(messages)
    }

    fn annotate(
        &self,
        scene: &EvaluationActivation<'_>,
        params: Option<&Value>,
        namespace: Option<&Value>,
        failure_policy: FailurePolicy,
    ) -> Result<Vec<PolicyAuditAnnotation>, ExpressionError> {
        if self.annotations.is_empty() {
            return Ok(Vec::new());
        }
        let variables: Rc<Variables<'_>> = self.composition.variables();
        let sight = OptionalVariables {
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
                    Some(text) => annotations.push(PolicyAuditAnnotation::Note {
                        key: key.clone(),
                        value: text.to_owned(),
                    }),
                    None => {
                        annotations.push(PolicyAuditAnnotation::Failed(unsupported(
                            &expression.source,
                            &value.ty(),
                        )));
                    }
                },
                Err(ExpressionError::Failed(why)) => {
                    if failure_policy == FailurePolicy::Fail {
                        annotations.push(PolicyAuditAnnotation::Failed(why));
                    }
                }
                Err(ExpressionError::Budget) => return Err(ExpressionError::Budget),
            }
        }
        Ok(annotations)
    }
}

/// What speaks against a request of which something could not be found out.
fn failure(why: String, failure_policy: FailurePolicy) -> Option<PolicyDecision> {
    (failure_policy == FailurePolicy::Fail).then_some(PolicyDecision {
        message: why,
        reason: String::new(),
    })
}

fn unsupported(source: &str, found: &Type) -> String {
    format!(
        "valueExpression '{source}' resulted in unsupported return type: {found}. Return type must be either string or null."
    )
}

// --- CompiledValidation ---

impl CompiledValidation {
    /// What is said when it is not true: what its expression makes up, else its message, else the expression.
    fn objection(&self, made_up: Option<&str>) -> PolicyDecision {
        let message = [made_up.unwrap_or_default(), self.message.trim()]
            .into_iter()
            .find(|message| !message.is_empty())
            .map_or_else(
                || format!("failed expression: {}", self.expression.source.trim()),
                str::to_owned,
            );
        PolicyDecision {
            message,
            reason: self.reason.clone(),
        }
    }
}
