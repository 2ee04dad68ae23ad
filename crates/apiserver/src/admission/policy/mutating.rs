//! Evaluates one `MutatingAdmissionPolicy`.

use k3_api::{
    admission::OptionalVariableDeclarations,
    patch::json::{Error, Patch},
    status::{Status, StatusCause, StatusReason},
    strategy::Tree,
};
use k3_cel::RUNTIME_COST_BUDGET;
use serde_json::{Value, json};

use super::{
    super::{
        AdmissionAttributes,
        expression::{
            CompiledExpression, CompositionEnv, EvaluationActivation, MatchConditionError, MatchConditions,
            OptionalVariables,
        },
        failure_policy::FailurePolicy,
        versioned_attributes::VersionedResource,
    },
    PolicyConfigurationError, apply,
    policy_source::{CompiledPolicy, PolicyBinding},
};

/// The expressions of a policy, compiled.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/compilation.go compilePolicy
#[derive(Debug)]
pub(super) struct CompiledMutatingPolicy {
    composition: CompositionEnv,
    conditions: MatchConditions,
    pub mutations: Vec<CompiledMutation>,
}

/// How an object is changed.
#[derive(Debug)]
pub(super) enum CompiledMutation {
    /// By operations.
    Patch(CompiledExpression),
    /// By what it is to have.
    Apply(CompiledExpression),
}

/// Why an object is not changed.
#[derive(Debug)]
pub(super) enum MutationError {
    /// It is the policy's fault: whether the request fails is for the policy to say.
    Policy(String),
    /// The request fails.
    Status(Box<Status>),
}

/// The errors of all policies.
#[derive(Debug, Default)]
pub(super) struct MutationErrors(Vec<(String, StatusReason)>);

// --- CompiledMutatingPolicy ---

impl CompiledMutatingPolicy {
    /// Compiles the expressions of a policy.
    pub(super) fn compile(policy: &CompiledPolicy<CompiledMutatingPolicy>) -> Self {
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
        let with_patches = environment.clone().with_patch_types();
        let mutation = |mutation: &Value| {
            let (field, gives) = match mutation.text("patchType") {
                "JSONPatch" => ("jsonPatch", "list(JSONPatch)"),
                "ApplyConfiguration" => ("applyConfiguration", "Object"),
                _ => return None,
            };
            let source = mutation.at(field).text("expression");
            let expression = CompiledExpression::compile(&with_patches, source, &[gives]);
            Some(if field == "jsonPatch" {
                CompiledMutation::Patch(expression)
            } else {
                CompiledMutation::Apply(expression)
            })
        };
        CompiledMutatingPolicy {
            conditions: MatchConditions::compile(spec, &environment, policy.failure_policy),
            mutations: spec.items("mutations").iter().filter_map(mutation).collect(),
            composition,
        }
    }

    /// Whether the conditions of the policy hold.
    pub(super) fn applies(
        &self,
        scene: &EvaluationActivation<'_>,
        params: Option<&Value>,
    ) -> Result<bool, MatchConditionError> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        self.conditions.hold(scene, params, &self.composition.variables())
    }

    /// The object, changed by one mutation and complete.
    pub(super) fn change(
        &self,
        mutation: &CompiledMutation,
        object: &Value,
        form: &VersionedResource,
        scene: &EvaluationActivation<'_>,
        params: Option<&Value>,
        namespace: Option<&Value>,
    ) -> Result<Value, MutationError> {
        let (CompiledMutation::Patch(expression) | CompiledMutation::Apply(expression)) = mutation;
        if let Some(why) = expression.error() {
            return Err(MutationError::Policy(why.to_string()));
        }
        let variables = self.composition.variables();
        let sight = OptionalVariables {
            params,
            namespace,
            authorizer: true,
        };
        let bindings = scene.bindings(sight, &variables);
        let mut budget = RUNTIME_COST_BUDGET;
        let value = expression
            .evaluate(&bindings, &variables, &mut budget)
            .map_err(|error| MutationError::Policy(error.to_string()))?;
        let changed = match mutation {
            CompiledMutation::Apply(_) => apply::apply(object, &value, form)
                .map_err(|error| MutationError::Policy(error.to_string()))?,
            CompiledMutation::Patch(_) => match patched(object, &value)? {
                Some(changed) => changed,
                // A test that fails keeps the object as it is.
                None => return Ok(object.clone()),
            },
        };
        let internal = |error| MutationError::Status(Box::new(Status::internal_error(error)));
        let (_, full) = form.complete(&changed).map_err(internal)?;
        Ok(full)
    }
}

/// The object after the operations that an expression made; `None` if one of them is a test that fails.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/json_patch.go Patch
fn patched(object: &Value, operations: &k3_cel::Value<'_>) -> Result<Option<Value>, MutationError> {
    let failed = |why: String| MutationError::Policy(why);
    apply::check_names(operations).map_err(|error| failed(error.to_string()))?;
    let operations = operations.to_json().map_err(|error| {
        failed(format!(
            "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}"
        ))
    })?;
    let Value::Array(operations) = operations else {
        return Err(failed(format!(
            "type mismatch: a list of operations is needed, not {operations}"
        )));
    };
    let operations: Vec<Value> = operations.iter().map(operation).collect();
    let patch =
        Patch::try_new(Value::Array(operations)).map_err(|error| failed(format!("JSON Patch: {error}")))?;
    match patch.apply(object.clone()) {
        Ok(changed) => Ok(Some(changed)),
        Err(error) if is_failed_test(&error) => Ok(None),
        Err(error) => Err(failed(format!("JSON Patch: {error}"))),
    }
}

/// Whether a patch does not apply because it tests for something else than there is.
fn is_failed_test(error: &Error) -> bool {
    matches!(error, Error::Operation(why) if why.starts_with("testing value ") && why.ends_with(" failed"))
}

/// An operation as JSON patches have it: without a place to copy from where none is said.
fn operation(said: &Value) -> Value {
    let mut operation = json!({"op": said.text("op"), "path": said.text("path")});
    if !said.text("from").is_empty() {
        operation["from"] = said.text("from").into();
    }
    if let Some(value) = said.get("value") {
        operation["value"] = value.clone();
    }
    operation
}

// --- MutationErrors ---

impl MutationErrors {
    /// A policy cannot be run.
    pub(super) fn misconfigured<E>(
        &mut self,
        policy: &CompiledPolicy<E>,
        problem: &PolicyConfigurationError<'_>,
    ) {
        let text = match problem.binding {
            Some(binding) => denied(policy, binding, &problem.message()),
            None => format!("policy \"{}\" denied request: {}", policy.name, problem.message()),
        };
        self.add(policy, text, StatusReason::Unknown);
    }

    /// A policy failed.
    pub(super) fn failed<E>(&mut self, policy: &CompiledPolicy<E>, binding: &PolicyBinding, why: &str) {
        self.add(policy, denied(policy, binding, why), StatusReason::Invalid);
    }

    fn add<E>(&mut self, policy: &CompiledPolicy<E>, text: String, reason: StatusReason) {
        if policy.failure_policy == FailurePolicy::Fail {
            self.0.push((text, reason));
        }
    }

    /// All policies are done.
    pub(super) fn end(self, attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
        let Some((message, reason)) = self.0.first() else {
            return Ok(());
        };
        let mut status = attributes.forbidden("admission request denied by policy");
        status.message.clone_from(message);
        if *reason != StatusReason::Unknown {
            status.reason = *reason;
        }
        let causes = self.0.iter().map(|(message, _)| StatusCause {
            message: message.clone(),
            ..StatusCause::default()
        });
        status.details.get_or_insert_default().causes.extend(causes);
        Err(status)
    }
}

fn denied<E>(policy: &CompiledPolicy<E>, binding: &PolicyBinding, why: &str) -> String {
    format!(
        "policy '{}' with binding '{}' denied request: {why}",
        policy.name, binding.name
    )
}
