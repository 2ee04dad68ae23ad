//! Policies: expressions that change or judge what is written.
//!
//! ```text
//! source      policies with their bindings, as they are configured
//! params      the parameters of a policy, as a binding names them
//! validating  one policy that judges, and what it says of a request
//! mutating    one policy that changes objects
//! verdict     what all policies together say
//! ```
//!
//! Promises: a policy acts from the moment its binding is stored. Its expressions are compiled once. What cannot be found out
//! fails the request, or is passed over, as the policy says. Without policies for a resource, requests for it pay nothing but a
//! look into an index.

mod apply;
mod mutating;
mod params;
mod source;
#[cfg(test)]
mod tests;
mod validating;
mod verdict;

use std::sync::Arc;

use k3_api::{
    status::{GroupResource, Status},
    strategy::Tree,
};
use serde_json::Value;

use self::{
    source::{Binding, Policy, Source},
    validating::{Annotation, Compiled},
    verdict::Verdict,
};
use super::{
    Attributes, Operation,
    expression::Scene,
    object,
    reinvocation::Round,
    subject::{Form, Subject, keep_record},
};
use crate::{authz::Authorizer, cache::Caches, custom::Converter};

/// All policies.
pub(super) struct Policies {
    authorizer: Arc<Authorizer>,
    converter: Arc<Converter>,
    validating: Source<Compiled>,
    mutating: Source<mutating::Compiled>,
}

/// One run of a policy.
struct Run<'p, E> {
    policy: &'p Policy<E>,
    binding: &'p Binding,
    form: Form,
    params: Option<Value>,
}

/// Why a policy cannot be run.
struct Misconfigured<'p> {
    /// `None` if it is the policy's fault.
    binding: Option<&'p Binding>,
    why: String,
}

// --- Policies ---

impl Policies {
    pub(super) fn new(authorizer: &Arc<Authorizer>, converter: &Arc<Converter>) -> Self {
        Policies {
            authorizer: Arc::clone(authorizer),
            converter: Arc::clone(converter),
            validating: Source::new("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
            mutating: Source::new("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
        }
    }

    /// Lets policies refuse the object.
    pub(super) fn validate(&self, attributes: &mut Attributes<'_>, caches: &Caches) -> Result<(), Status> {
        let policies = self.validating.of(&attributes.resource.kind.plural, caches);
        if policies.is_empty() || attributes.is_exempt() {
            return Ok(());
        }
        let subject = Subject::of(attributes, &self.converter);
        let namespace = namespace(&subject, caches);
        let (new, old) = (attributes.new_state(), attributes.old_state());
        let mut scenes: Vec<(Form, Scene<'_>)> = Vec::new();
        let mut verdict = Verdict::default();
        for (policy, bindings) in &policies {
            for run in runs(policy, bindings, &subject, new, old, caches) {
                let run = match run {
                    Ok(run) => run,
                    Err(problem) => {
                        verdict.misconfigured(policy, &problem);
                        continue;
                    }
                };
                let namespace = namespace.as_ref().map_err(Clone::clone)?.as_ref();
                let at = match scenes.iter().position(|(form, _)| *form == run.form) {
                    Some(at) => at,
                    None => match Scene::new(&subject, &run.form, new, old, &self.authorizer) {
                        Ok(scene) => {
                            scenes.push((run.form.clone(), scene));
                            scenes.len() - 1
                        }
                        Err(status) => {
                            verdict
                                .misconfigured(policy, &Misconfigured::not_converted(run.binding, &status));
                            continue;
                        }
                    },
                };
                let judgement = policy.compiled(Compiled::compile).judge(
                    &scenes[at].1,
                    run.params.as_ref(),
                    namespace,
                    policy.fails_open,
                );
                verdict.take(policy, run.binding, judgement);
            }
            verdict.note(policy, attributes.ask);
        }
        drop(scenes);
        verdict.end(attributes)
    }

    /// Lets policies change the object, one after the other.
    pub(super) fn admit(
        &self,
        attributes: &mut Attributes<'_>,
        caches: &Caches,
        round: &mut Round,
    ) -> Result<(), Status> {
        // What goes cannot be changed.
        if attributes.operation == Operation::Delete {
            return Ok(());
        }
        let policies = self.mutating.of(&attributes.resource.kind.plural, caches);
        if policies.is_empty() || attributes.is_exempt() {
            return Ok(());
        }
        let subject = Subject::of(attributes, &self.converter);
        let mut errors = mutating::ErrorList::default();
        let mut all = Vec::new();
        for (policy, bindings) in &policies {
            let (new, old) = (attributes.new_state(), attributes.old_state());
            for run in runs(policy, bindings, &subject, new, old, caches) {
                match run {
                    Ok(run) => all.push(run),
                    Err(problem) => errors.misconfigured(policy, &problem),
                }
            }
        }
        if !all.is_empty() {
            let namespace = namespace(&subject, caches)?;
            round.begin(attributes.new_state());
            for run in all {
                let before = attributes.object.clone();
                let compiled = run.policy.compiled(mutating::Compiled::compile);
                let id = run.id();
                let applies = {
                    let (new, old) = (attributes.new_state(), attributes.old_state());
                    let scene = Scene::new(&subject, &run.form, new, old, &self.authorizer)?;
                    compiled.applies(&scene, run.params.as_ref())
                };
                match applies {
                    Ok(true) if round.includes(&id) => {}
                    Ok(_) => continue,
                    Err(why) => {
                        errors.failed(run.policy, run.binding, &why);
                        continue;
                    }
                }
                for mutation in &compiled.mutations {
                    let (new, old) = (attributes.new_state(), attributes.old_state());
                    let scene = Scene::new(&subject, &run.form, new, old, &self.authorizer)?;
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
                        Err(mutating::Failure::Policy(why)) => errors.failed(run.policy, run.binding, &why),
                        Err(mutating::Failure::Status(status)) => return Err(*status),
                    }
                }
                let again = run.policy.spec.text("reinvocationPolicy") == "IfNeeded";
                round.invoked(&id, before != *attributes.object, again);
            }
            round.end(attributes.new_state());
        }
        errors.end(attributes)
    }
}

/// The runs of a policy that a request asks for, one after the other.
fn runs<'p, E>(
    policy: &'p Policy<E>,
    bindings: &'p [Arc<Binding>],
    subject: &Subject<'_>,
    new: Option<&Value>,
    old: Option<&Value>,
    caches: &Caches,
) -> Vec<Result<Run<'p, E>, Misconfigured<'p>>> {
    let by_policy = |why: String| vec![Err(Misconfigured { binding: None, why })];
    let form = match policy.criteria.matches(subject, new, old, caches) {
        Ok(Some(form)) => form,
        Ok(None) => return Vec::new(),
        Err(status) => return by_policy(status.message),
    };
    let kind = match params::kind(policy.spec.at("paramKind"), caches) {
        Ok(kind) => kind,
        Err(why) => return by_policy(why),
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
            Ok(true) => params::collect(kind.as_ref(), &binding.reference, subject, caches),
            Err(status) => Err(status.message),
        };
        match collected {
            Ok(found) => runs.extend(found.into_iter().map(|params| {
                Ok(Run {
                    policy,
                    binding,
                    form: form.clone(),
                    params,
                })
            })),
            Err(why) => runs.push(Err(Misconfigured {
                binding: Some(binding),
                why,
            })),
        }
    }
    runs
}

/// The namespace of what is written; none of a namespace itself.
fn namespace(subject: &Subject<'_>, caches: &Caches) -> Result<Option<Value>, Status> {
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

// --- Misconfigured ---

impl<'p> Misconfigured<'p> {
    fn not_converted(binding: &'p Binding, status: &Status) -> Self {
        Misconfigured {
            binding: Some(binding),
            why: format!("failed to convert object version: {}", status.message),
        }
    }
}

// --- Run ---

impl<E> Run<'_, E> {
    /// What tells it apart from other runs.
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
