//! Admission policies (KEP-3488, KEP-3962): CEL expressions that mutate or validate writes.
//!
//! ```text
//! policy_source  policies with their bindings, as configured
//! params         the params of a policy, as a binding names them
//! validating     evaluation of one ValidatingAdmissionPolicy
//! mutating       evaluation of one MutatingAdmissionPolicy
//! decision       the combined result of all policies
//! ```
//!
//! Promises: a policy is active from the moment its binding is stored. Its expressions are compiled once. Errors fail the request
//! or are ignored, by `failurePolicy`. Without policies for a resource, requests for it cost one index lookup.

mod apply;
mod decision;
mod mutating;
mod params;
mod policy_source;
#[cfg(test)]
mod tests;
mod validating;

use std::sync::Arc;

use k3_api::{
    status::{GroupResource, Status},
    strategy::Tree,
};
use serde_json::Value;

use self::{
    decision::DecisionCollector,
    policy_source::{CompiledPolicy, PolicyBinding, PolicySource},
    validating::{CompiledValidatingPolicy, PolicyAuditAnnotation},
};
use super::{
    AdmissionAttributes, Operation,
    expression::EvaluationActivation,
    object,
    reinvocation::{InvocationEffect, ReinvocationContext, ReinvocationPolicy},
    versioned_attributes::{VersionedAttributes, VersionedResource, keep_record},
};
use crate::{authz::Authorizer, cache::WatchCaches, custom::CustomResourceConverter};

/// All policies.
pub(super) struct PolicyDispatcher {
    authorizer: Arc<Authorizer>,
    converter: Arc<CustomResourceConverter>,
    validating: PolicySource<CompiledValidatingPolicy>,
    mutating: PolicySource<mutating::CompiledMutatingPolicy>,
}

/// One run of a policy.
struct PolicyInvocation<'p, E> {
    policy: &'p CompiledPolicy<E>,
    binding: &'p PolicyBinding,
    form: VersionedResource,
    params: Option<Value>,
}

/// Why a policy cannot be run.
struct PolicyConfigurationError<'p> {
    /// `None` if it is the policy's fault.
    binding: Option<&'p PolicyBinding>,
    why: String,
}

// --- PolicyDispatcher ---

impl PolicyDispatcher {
    pub(super) fn new(authorizer: &Arc<Authorizer>, converter: &Arc<CustomResourceConverter>) -> Self {
        PolicyDispatcher {
            authorizer: Arc::clone(authorizer),
            converter: Arc::clone(converter),
            validating: PolicySource::new("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
            mutating: PolicySource::new("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
        }
    }

    /// Lets policies refuse the object.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go Dispatch
    pub(super) fn validate(
        &self,
        attributes: &mut AdmissionAttributes<'_>,
        caches: &WatchCaches,
    ) -> Result<(), Status> {
        let policies = self.validating.of(&attributes.resource.kind.plural, caches);
        if policies.is_empty() || attributes.is_exempt() {
            return Ok(());
        }
        let subject = VersionedAttributes::of(attributes, &self.converter);
        let namespace = namespace(&subject, caches);
        let new = attributes.new_state();
        let old = attributes.old_state();
        let mut scenes: Vec<(VersionedResource, EvaluationActivation<'_>)> = Vec::new();
        let mut decisions = DecisionCollector::default();
        for (policy, bindings) in &policies {
            for run in runs(policy, bindings, &subject, new, old, caches) {
                let run = match run {
                    Ok(run) => run,
                    Err(problem) => {
                        decisions.misconfigured(policy, &problem);
                        continue;
                    }
                };
                let namespace = namespace.as_ref().map_err(Clone::clone)?.as_ref();
                let at = match scenes.iter().position(|(form, _)| *form == run.form) {
                    Some(at) => at,
                    None => {
                        match EvaluationActivation::new(&subject, &run.form, new, old, &self.authorizer) {
                            Ok(scene) => {
                                scenes.push((run.form.clone(), scene));
                                scenes.len() - 1
                            }
                            Err(status) => {
                                decisions.misconfigured(
                                    policy,
                                    &PolicyConfigurationError::not_converted(run.binding, &status),
                                );
                                continue;
                            }
                        }
                    }
                };
                let result = policy.compiled(CompiledValidatingPolicy::compile).validate(
                    &scenes[at].1,
                    run.params.as_ref(),
                    namespace,
                    policy.failure_policy,
                );
                decisions.take(policy, run.binding, result);
            }
            decisions.note(policy, attributes.ctx);
        }
        drop(scenes);
        decisions.end(attributes)
    }

    /// Lets policies change the object, one after the other.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go dispatchInvocations
    pub(super) fn admit(
        &self,
        attributes: &mut AdmissionAttributes<'_>,
        caches: &WatchCaches,
        reinvocation: &mut ReinvocationContext,
    ) -> Result<(), Status> {
        // What goes cannot be changed.
        if attributes.operation == Operation::Delete {
            return Ok(());
        }
        let policies = self.mutating.of(&attributes.resource.kind.plural, caches);
        if policies.is_empty() || attributes.is_exempt() {
            return Ok(());
        }
        let subject = VersionedAttributes::of(attributes, &self.converter);
        let mut errors = mutating::MutationErrors::default();
        let mut all = Vec::new();
        for (policy, bindings) in &policies {
            let new = attributes.new_state();
            let old = attributes.old_state();
            for run in runs(policy, bindings, &subject, new, old, caches) {
                match run {
                    Ok(run) => all.push(run),
                    Err(problem) => errors.misconfigured(policy, &problem),
                }
            }
        }
        if !all.is_empty() {
            let namespace = namespace(&subject, caches)?;
            reinvocation.begin_pass(attributes.new_state());
            for run in all {
                let before = attributes.object.clone();
                let compiled = run.policy.compiled(mutating::CompiledMutatingPolicy::compile);
                let id = run.id();
                let applies = {
                    let new = attributes.new_state();
                    let old = attributes.old_state();
                    let scene = EvaluationActivation::new(&subject, &run.form, new, old, &self.authorizer)?;
                    compiled.applies(&scene, run.params.as_ref())
                };
                match applies {
                    Ok(true) if reinvocation.should_invoke(&id) => {}
                    Ok(_) => continue,
                    Err(why) => {
                        errors.failed(run.policy, run.binding, &why.to_string());
                        continue;
                    }
                }
                for mutation in &compiled.mutations {
                    let new = attributes.new_state();
                    let old = attributes.old_state();
                    let scene = EvaluationActivation::new(&subject, &run.form, new, old, &self.authorizer)?;
                    let view = subject.view(attributes.object, &run.form)?;
                    let changed = compiled.change(
                        mutation,
                        &view,
                        &run.form,
                        &scene,
                        run.params.as_ref(),
                        namespace.as_ref(),
                    );
                    drop(scene);
                    match changed {
                        Ok(changed) => {
                            let changed = keep_record(&view, changed, attributes.warnings);
                            drop(view);
                            subject.put_back(attributes.object, changed, &run.form)?;
                        }
                        Err(mutating::MutationError::Policy(why)) => {
                            errors.failed(run.policy, run.binding, &why);
                        }
                        Err(mutating::MutationError::Status(status)) => return Err(*status),
                    }
                }
                let effect = if before == *attributes.object {
                    InvocationEffect::Unchanged
                } else {
                    InvocationEffect::Changed
                };
                reinvocation.record_invocation(&id, effect, ReinvocationPolicy::read(&run.policy.spec));
            }
            reinvocation.end_pass(attributes.new_state());
        }
        errors.end(attributes)
    }
}

/// The runs of a policy that a request asks for, one after the other.
fn runs<'p, E>(
    policy: &'p CompiledPolicy<E>,
    bindings: &'p [Arc<PolicyBinding>],
    subject: &VersionedAttributes<'_>,
    new: Option<&Value>,
    old: Option<&Value>,
    caches: &WatchCaches,
) -> Vec<Result<PolicyInvocation<'p, E>, PolicyConfigurationError<'p>>> {
    let by_policy = |why: String| vec![Err(PolicyConfigurationError { binding: None, why })];
    let form = match policy.criteria.matches(subject, new, old, caches) {
        Ok(Some(form)) => form,
        Ok(None) => return Vec::new(),
        Err(status) => return by_policy(status.message),
    };
    let kind = match params::kind(policy.spec.at("paramKind"), caches) {
        Ok(kind) => kind,
        Err(error) => return by_policy(error.to_string()),
    };
    let mut runs = Vec::new();
    for binding in bindings {
        let matched = match &binding.criteria {
            None => Ok(true),
            Some(criteria) => criteria
                .matches(subject, new, old, caches)
                .map(|form| form.is_some()),
        };
        let collected = match matched {
            Ok(false) => continue,
            Ok(true) => params::collect(kind.as_ref(), &binding.reference, subject, caches)
                .map_err(|error| error.to_string()),
            Err(status) => Err(status.message),
        };
        match collected {
            Ok(found) => runs.extend(found.into_iter().map(|params| {
                Ok(PolicyInvocation {
                    policy,
                    binding,
                    form: form.clone(),
                    params,
                })
            })),
            Err(why) => runs.push(Err(PolicyConfigurationError {
                binding: Some(binding),
                why,
            })),
        }
    }
    runs
}

/// The namespace of what is written; none of a namespace itself.
fn namespace(subject: &VersionedAttributes<'_>, caches: &WatchCaches) -> Result<Option<Value>, Status> {
    let is_namespace = subject.form.kind() == ("", "v1", "Namespace");
    if subject.namespace.is_empty() || is_namespace {
        return Ok(None);
    }
    match object("", "namespaces", "", &subject.namespace, caches) {
        Some(namespace) => Ok(Some(namespace)),
        None => Err(Status::not_found(
            GroupResource::new("", "namespaces"),
            &subject.namespace,
        )),
    }
}

// --- PolicyConfigurationError ---

impl<'p> PolicyConfigurationError<'p> {
    fn not_converted(binding: &'p PolicyBinding, status: &Status) -> Self {
        PolicyConfigurationError {
            binding: Some(binding),
            why: format!("failed to convert object version: {}", status.message),
        }
    }
}

// --- PolicyInvocation ---

impl<E> PolicyInvocation<'_, E> {
    /// Identifies the invocation among those of a request.
    fn id(&self) -> String {
        let params = self.params.as_ref().unwrap_or(&Value::Null).at("metadata");
        format!(
            "{}/{}/{}/{}",
            self.policy.name,
            self.binding.name,
            params.text("namespace"),
            params.text("name")
        )
    }
}
