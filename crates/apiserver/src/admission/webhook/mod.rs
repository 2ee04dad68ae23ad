//! Webhooks: programs elsewhere that change or refuse what is written.
//!
//! ```text
//! hook     one webhook, as its configuration has it
//! review   the question that a webhook is asked, and what it answers
//! call     asking one webhook
//! ```
//!
//! Promises: those that change objects are asked one after the other, in the order of their configurations' names; those that
//! only judge are asked all at once. A webhook that cannot be asked fails the request, or is left out, as its configuration
//! says. Without webhooks for a resource, requests for it pay nothing but a look into an index.

mod call;
mod hook;
mod review;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::Arc};

use k3_api::{
    go,
    patch::json::Patch,
    status::{GroupResource, Status},
};
use k3_cel::Variables;
use serde::Serialize;
use serde_json::Value;

use self::{
    call::Refusal,
    hook::{Hook, Hooks},
    review::{Sort, Verdict},
};
use super::{
    Attributes,
    configured::Configured,
    expression::Scene,
    reinvocation::Round,
    resource,
    subject::{Form, Subject, keep_record},
};
use crate::{authz::Authorizer, cache::Caches, custom::Converter, outgoing::Outgoing, registry::Ask};

const GROUP: &str = "admissionregistration.k8s.io";

/// All webhooks.
pub(super) struct Webhooks {
    authorizer: Arc<Authorizer>,
    outgoing: Arc<Outgoing>,
    converter: Arc<Converter>,
    mutating: Configured<Vec<Arc<Hook>>, Hooks>,
    validating: Configured<Vec<Arc<Hook>>, Hooks>,
}

// --- Webhooks ---

impl Webhooks {
    pub(super) fn new(
        authorizer: &Arc<Authorizer>,
        outgoing: &Arc<Outgoing>,
        converter: &Arc<Converter>,
    ) -> Self {
        Webhooks {
            authorizer: Arc::clone(authorizer),
            outgoing: Arc::clone(outgoing),
            converter: Arc::clone(converter),
            mutating: Configured::default(),
            validating: Configured::default(),
        }
    }

    fn hooks(&self, sort: Sort, caches: &Caches) -> Arc<Hooks> {
        let (known, plural) = match sort {
            Sort::Mutating => (&self.mutating, "mutatingwebhookconfigurations"),
            Sort::Validating => (&self.validating, "validatingwebhookconfigurations"),
        };
        known.get(&resource(GROUP, plural, caches), Hook::read_all, |all| {
            Hooks::new(&all)
        })
    }

    /// The form in which a webhook is to be asked about a request; `None` if it is not.
    fn matches(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        subject: &Subject<'_>,
        caches: &Caches,
    ) -> Result<Option<Form>, Status> {
        let (new, old) = (attributes.new_state(), attributes.old_state());
        let Some(form) = hook.criteria.matches(subject, new, old, caches)? else {
            return Ok(None);
        };
        let Some(conditions) = hook.conditions() else {
            return Ok(Some(form));
        };
        let scene = Scene::new(subject, &form, new, old, &self.authorizer)?;
        match conditions.hold(&scene, None, &Variables::new(Vec::new())) {
            Ok(true) => Ok(Some(form)),
            Ok(false) => Ok(None),
            Err(why) => {
                let resource = GroupResource::new(&subject.form.whole.group, &subject.form.whole.plural);
                Err(Status::forbidden(resource, &subject.name, why))
            }
        }
    }

    /// Lets webhooks change the object, one after the other.
    pub(super) async fn admit(
        &self,
        attributes: &mut Attributes<'_>,
        caches: &Caches,
        round: &mut Round,
    ) -> Result<(), Status> {
        let hooks = self.hooks(Sort::Mutating, caches);
        let plural = &*attributes.resource.kind.plural;
        if hooks.has_none_of(plural) || attributes.is_exempt() {
            return Ok(());
        }
        let subject = Subject::of(attributes, &self.converter);
        round.begin(attributes.new_state());
        for (position, hook) in hooks.of(plural) {
            let Some(form) = self.matches(hook, attributes, &subject, caches)? else {
                continue;
            };
            if !round.includes(&hook.id) {
                continue;
            }
            let at = format!("round_{}_index_{position}", round.number());
            let changed = self.change(hook, attributes, &subject, &form, &at).await;
            let mutated = matches!(changed, Ok(true));
            let note = Note {
                configuration: &hook.configuration,
                webhook: &hook.name,
                mutated: Some(mutated),
                patch: None,
                patch_type: None,
            };
            note.add(&format!("mutation.webhook.admission.k8s.io/{at}"), attributes.ask);
            round.invoked(&hook.id, mutated, hook.again);
            if let Err(refusal) = changed {
                match refusal.status(hook) {
                    Some(status) => return Err(status),
                    None => attributes.ask.notes.add(
                        &format!("failed-open.mutation.webhook.admission.k8s.io/{at}"),
                        hook.name.as_str(),
                    ),
                }
            }
        }
        round.end(attributes.new_state());
        Ok(())
    }

    /// Lets one webhook change the object. Tells whether it did.
    async fn change(
        &self,
        hook: &Hook,
        attributes: &mut Attributes<'_>,
        subject: &Subject<'_>,
        form: &Form,
        at: &str,
    ) -> Result<bool, Refusal> {
        let (new, old) = (attributes.new_state(), attributes.old_state());
        let verdict = call::ask(&self.outgoing, hook, Sort::Mutating, subject, form, new, old).await?;
        tell(&verdict, hook, attributes.ask, attributes.warnings);
        if !verdict.allowed {
            return Err(Refusal::denied(call::denial(hook, &verdict.result)));
        }
        if verdict.patch.is_empty() {
            return Ok(false);
        }
        let undecodable =
            |why: String| Refusal::Call(format!("received undecodable patch in webhook response: {why}"));
        let operations: Value =
            serde_json::from_slice(&verdict.patch).map_err(|error| undecodable(error.to_string()))?;
        let is_empty = operations.as_array().is_some_and(Vec::is_empty);
        let patch = Patch::try_new(operations.clone()).map_err(|error| undecodable(error.to_string()))?;
        if is_empty || operations.is_null() {
            return Ok(false);
        }
        let internal = |why: String| Refusal::denied(Status::internal_error(why));
        let Some(new) = attributes.new_state() else {
            return Err(internal(format!(
                "admission webhook {} attempted to modify the object, which is not supported for this operation",
                go::quote(&hook.name)
            )));
        };
        if verdict.patch_type != "JSONPatch" {
            return Err(Refusal::Call(format!(
                "unsupported patch type {}",
                go::quote(&verdict.patch_type)
            )));
        }
        let view = subject.view(new, form).map_err(Refusal::denied)?;
        let patched = patch
            .apply(Cow::clone(&view).into_owned())
            .map_err(|error| internal(error.to_string()))?;
        let (patched, full) = form.complete(&patched).map_err(internal)?;
        let changed = patched != *view;
        let note = Note {
            configuration: &hook.configuration,
            webhook: &hook.name,
            mutated: None,
            patch: Some(&operations),
            patch_type: Some("JSONPatch"),
        };
        note.add(&format!("patch.webhook.admission.k8s.io/{at}"), attributes.ask);
        let view = view.into_owned();
        let full = keep_record(&view, full, attributes.warnings);
        let put_back = subject.put_back(attributes.object, full, form);
        put_back.map(|()| changed).map_err(Refusal::denied)
    }

    /// Lets webhooks refuse the object, all at once.
    pub(super) async fn validate(
        &self,
        attributes: &mut Attributes<'_>,
        caches: &Caches,
    ) -> Result<(), Status> {
        let hooks = self.hooks(Sort::Validating, caches);
        let plural = &*attributes.resource.kind.plural;
        if hooks.has_none_of(plural) || attributes.is_exempt() {
            return Ok(());
        }
        let subject = Subject::of(attributes, &self.converter);
        let (new, old) = (attributes.new_state(), attributes.old_state());
        let mut asked = Vec::new();
        for (_, hook) in hooks.of(plural) {
            if let Some(form) = self.matches(hook, attributes, &subject, caches)? {
                asked.push((hook, form));
            }
        }
        let calls = asked
            .iter()
            .map(|(hook, form)| call::ask(&self.outgoing, hook, Sort::Validating, &subject, form, new, old));
        let verdicts = futures_util::future::join_all(calls).await;
        let mut refused = None;
        for (position, ((hook, _), verdict)) in asked.into_iter().zip(verdicts).enumerate() {
            let refusal = match verdict {
                Ok(verdict) => {
                    tell(&verdict, hook, attributes.ask, attributes.warnings);
                    if verdict.allowed {
                        continue;
                    }
                    Refusal::denied(call::denial(hook, &verdict.result))
                }
                Err(refusal) => refusal,
            };
            match refusal.status(hook) {
                Some(status) => refused = refused.or(Some(status)),
                None => attributes.ask.notes.add(
                    &format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{position}"),
                    hook.name.as_str(),
                ),
            }
        }
        refused.map_or(Ok(()), Err)
    }
}

/// What the audit log is told of a call.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Note<'n> {
    configuration: &'n str,
    webhook: &'n str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mutated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<&'n Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'n str>,
}

// --- Note ---

impl Note<'_> {
    fn add(&self, key: &str, ask: &Ask) {
        let text = serde_json::to_string(self).expect("a note can be written");
        ask.notes.add(key, text);
    }
}

/// Passes on what a webhook says to the client and to the audit log.
fn tell(verdict: &Verdict, hook: &Hook, ask: &Ask, warnings: &mut Vec<String>) {
    for (key, value) in &verdict.annotations {
        ask.notes.add(&format!("{}/{key}", hook.name), value.as_str());
    }
    warnings.extend(verdict.warnings.iter().cloned());
}
