//! The combined decision of all policies about a request: deny, warn, audit.

use std::collections::BTreeMap;

use k3_api::status::{Status, StatusCause, StatusReason};
use serde::Serialize;

use super::{
    PolicyAuditAnnotation, PolicyConfigurationError,
    policy_source::{CompiledPolicy, PolicyBinding},
    validating::{PolicyDecision, ValidateResult},
};
use crate::{
    admission::{AdmissionAttributes, failure_policy::FailurePolicy},
    registry::RequestContext,
};

/// Of the longest notes and of many failures the audit log gets the beginning.
const LONGEST_NOTE: usize = 10 * 1024;
const MAX_FAILURES: usize = 50;

/// What has been said so far.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go Dispatch, publishValidationFailureAnnotations
#[derive(Debug, Default)]
pub(super) struct DecisionCollector {
    /// The first reason to refuse the request.
    denial: Option<PolicyDecision>,
    warnings: Vec<String>,
    failures: Vec<ValidationFailure>,
    /// The notes of the policy that is being asked: different runs may have different ones.
    notes: BTreeMap<String, Vec<String>>,
}

/// A failed validation, as the audit log has it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ValidationFailure {
    message: String,
    policy: String,
    binding: String,
    expression_index: usize,
    validation_actions: Vec<String>,
}

// --- DecisionCollector ---

impl DecisionCollector {
    fn refuse(&mut self, policy: &str, binding: Option<&str>, objection: PolicyDecision) {
        let by = match binding {
            Some(binding) => format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}'"),
            None => format!("ValidatingAdmissionPolicy '{policy}'"),
        };
        self.denial.get_or_insert_with(|| PolicyDecision {
            message: format!("{by} denied request: {}", objection.message),
            ..objection
        });
    }

    /// A policy cannot be run.
    pub(super) fn misconfigured<E>(
        &mut self,
        policy: &CompiledPolicy<E>,
        problem: &PolicyConfigurationError<'_>,
    ) {
        if policy.failure_policy == FailurePolicy::Ignore {
            return;
        }
        let binding = problem.binding.map(|binding| binding.name.as_str());
        let objection = PolicyDecision {
            message: problem.message(),
            reason: String::new(),
        };
        self.refuse(&policy.name, binding, objection);
    }

    /// A policy was run.
    pub(super) fn take<E>(
        &mut self,
        policy: &CompiledPolicy<E>,
        binding: &PolicyBinding,
        result: ValidateResult,
    ) {
        for (position, objection) in result.objections {
            for action in &binding.actions {
                match action.as_str() {
                    "Deny" => {
                        let objection = PolicyDecision {
                            message: objection.message.clone(),
                            reason: objection.reason.clone(),
                        };
                        self.refuse(&policy.name, Some(&binding.name), objection);
                    }
                    "Audit" => self.failures.push(ValidationFailure {
                        message: objection.message.clone(),
                        policy: policy.name.clone(),
                        binding: binding.name.clone(),
                        expression_index: position,
                        validation_actions: binding.actions.clone(),
                    }),
                    "Warn" => self.warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        policy.name, binding.name, objection.message
                    )),
                    _ => {}
                }
            }
        }
        for annotation in result.annotations {
            match annotation {
                PolicyAuditAnnotation::Note { key, mut value } => {
                    let mut end = value.len().min(LONGEST_NOTE);
                    while !value.is_char_boundary(end) {
                        end -= 1;
                    }
                    value.truncate(end);
                    let values = self.notes.entry(key).or_default();
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                PolicyAuditAnnotation::Failed(message) => {
                    let reason = String::new();
                    self.refuse(
                        &policy.name,
                        Some(&binding.name),
                        PolicyDecision { message, reason },
                    );
                }
            }
        }
    }

    /// All runs of a policy are done: the audit log gets its notes.
    pub(super) fn note<E>(&mut self, policy: &CompiledPolicy<E>, ctx: &RequestContext) {
        for (key, values) in std::mem::take(&mut self.notes) {
            ctx.notes
                .add(&format!("{}/{key}", policy.name), values.join(", "));
        }
    }

    /// All policies are done.
    pub(super) fn end(mut self, attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
        attributes.warnings.append(&mut self.warnings);
        if !self.failures.is_empty() {
            self.failures.truncate(MAX_FAILURES);
            let text = serde_json::to_string(&self.failures).expect("failures can be written");
            attributes
                .ctx
                .notes
                .add("validation.policy.admission.k8s.io/validation_failure", text);
        }
        let Some(denial) = self.denial else {
            return Ok(());
        };
        let mut status = attributes.forbidden(&denial.message);
        (status.reason, status.code) = match denial.reason.as_str() {
            "Forbidden" => (StatusReason::Forbidden, 403),
            "Unauthorized" => (StatusReason::Unauthorized, 401),
            "RequestEntityTooLarge" => (StatusReason::RequestEntityTooLarge, 413),
            _ => (StatusReason::Invalid, 422),
        };
        status.details.get_or_insert_default().causes.push(StatusCause {
            message: denial.message,
            ..StatusCause::default()
        });
        Err(status)
    }
}

// --- PolicyConfigurationError ---

impl PolicyConfigurationError<'_> {
    /// What is wrong, in words.
    pub(super) fn message(&self) -> String {
        let what = if self.binding.is_some() {
            "binding"
        } else {
            "policy"
        };
        format!("failed to configure {what}: {}", self.why)
    }
}
