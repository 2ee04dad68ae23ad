//! Mutating and validating admission webhooks.
//!
//! ```text
//! accessor  one webhook, as its configuration has it
//! review    the AdmissionReview that a webhook is sent, and its response
//! call      calling one webhook
//! ```
//!
//! Promises: mutating webhooks are called one after the other, in the order of their configurations' names; validating webhooks
//! are called in parallel. A webhook that cannot be called fails the request or is skipped, by `failurePolicy`. Without webhooks
//! for a resource, requests for it cost one index lookup.

mod accessor;
mod call;
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
    accessor::{WebhookAccessor, WebhookList},
    call::WebhookError,
    review::{AdmissionResponse, WebhookKind},
};
use super::{
    AdmissionAttributes,
    configuration_cache::ConfigurationCache,
    expression::EvaluationActivation,
    reinvocation::{InvocationEffect, ReinvocationContext},
    resource,
    versioned_attributes::{VersionedAttributes, VersionedResource, keep_record},
};
use crate::{
    authz::Authorizer, cache::WatchCaches, custom::CustomResourceConverter, outgoing::WebhookClientManager,
    registry::RequestContext,
};

const GROUP: &str = "admissionregistration.k8s.io";

/// All webhooks.
pub(super) struct WebhookDispatcher {
    authorizer: Arc<Authorizer>,
    outgoing: Arc<WebhookClientManager>,
    converter: Arc<CustomResourceConverter>,
    mutating: ConfigurationCache<Vec<Arc<WebhookAccessor>>, WebhookList>,
    validating: ConfigurationCache<Vec<Arc<WebhookAccessor>>, WebhookList>,
}

// --- WebhookDispatcher ---

impl WebhookDispatcher {
    pub(super) fn new(
        authorizer: &Arc<Authorizer>,
        outgoing: &Arc<WebhookClientManager>,
        converter: &Arc<CustomResourceConverter>,
    ) -> Self {
        WebhookDispatcher {
            authorizer: Arc::clone(authorizer),
            outgoing: Arc::clone(outgoing),
            converter: Arc::clone(converter),
            mutating: ConfigurationCache::default(),
            validating: ConfigurationCache::default(),
        }
    }

    fn hooks(&self, sort: WebhookKind, caches: &WatchCaches) -> Arc<WebhookList> {
        let (known, plural) = match sort {
            WebhookKind::Mutating => (&self.mutating, "mutatingwebhookconfigurations"),
            WebhookKind::Validating => (&self.validating, "validatingwebhookconfigurations"),
        };
        known.get(
            &resource(GROUP, plural, caches),
            WebhookAccessor::read_all,
            |all| WebhookList::new(&all),
        )
    }

    /// The form in which a webhook is to be asked about a request; `None` if it is not.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go ShouldCallHook
    fn matches(
        &self,
        hook: &WebhookAccessor,
        attributes: &AdmissionAttributes<'_>,
        subject: &VersionedAttributes<'_>,
        caches: &WatchCaches,
    ) -> Result<Option<VersionedResource>, Status> {
        let new = attributes.new_state();
        let old = attributes.old_state();
        let Some(form) = hook.criteria.matches(subject, new, old, caches)? else {
            return Ok(None);
        };
        let Some(conditions) = hook.conditions() else {
            return Ok(Some(form));
        };
        let scene = EvaluationActivation::new(subject, &form, new, old, &self.authorizer)?;
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
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go Dispatch
    pub(super) async fn admit(
        &self,
        attributes: &mut AdmissionAttributes<'_>,
        caches: &WatchCaches,
        reinvocation: &mut ReinvocationContext,
    ) -> Result<(), Status> {
        let hooks = self.hooks(WebhookKind::Mutating, caches);
        let plural = &*attributes.resource.kind.plural;
        if hooks.has_none_of(plural) || attributes.is_exempt() {
            return Ok(());
        }
        let subject = VersionedAttributes::of(attributes, &self.converter);
        reinvocation.begin_pass(attributes.new_state());
        for (position, hook) in hooks.of(plural) {
            let Some(form) = self.matches(hook, attributes, &subject, caches)? else {
                continue;
            };
            if !reinvocation.should_invoke(&hook.id) {
                continue;
            }
            let at = format!("round_{}_index_{position}", reinvocation.pass_number());
            let changed = self.change(hook, attributes, &subject, &form, &at).await;
            let mutated = matches!(changed, Ok(true));
            let note = WebhookAuditAnnotation {
                configuration: &hook.configuration,
                webhook: &hook.name,
                mutated: Some(mutated),
                patch: None,
                patch_type: None,
            };
            note.add(&format!("mutation.webhook.admission.k8s.io/{at}"), attributes.ctx);
            let effect = if mutated {
                InvocationEffect::Changed
            } else {
                InvocationEffect::Unchanged
            };
            reinvocation.record_invocation(&hook.id, effect, hook.reinvocation);
            if let Err(error) = changed {
                match error.status(hook) {
                    Some(status) => return Err(status),
                    None => attributes.ctx.notes.add(
                        &format!("failed-open.mutation.webhook.admission.k8s.io/{at}"),
                        hook.name.as_str(),
                    ),
                }
            }
        }
        reinvocation.end_pass(attributes.new_state());
        Ok(())
    }

    /// Lets one webhook mutate the object. Returns whether it did.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go callAttrMutatingHook
    async fn change(
        &self,
        hook: &WebhookAccessor,
        attributes: &mut AdmissionAttributes<'_>,
        subject: &VersionedAttributes<'_>,
        form: &VersionedResource,
        at: &str,
    ) -> Result<bool, WebhookError> {
        let new = attributes.new_state();
        let old = attributes.old_state();
        let response = call::call_webhook(
            &self.outgoing,
            hook,
            WebhookKind::Mutating,
            subject,
            form,
            new,
            old,
        )
        .await?;
        record_response(&response, hook, attributes.ctx, attributes.warnings);
        if !response.allowed {
            return Err(WebhookError::denied(call::denial(hook, &response.result)));
        }
        if response.patch.is_empty() {
            return Ok(false);
        }
        let undecodable = |why: String| {
            WebhookError::Call(format!("received undecodable patch in webhook response: {why}"))
        };
        let operations: Value =
            serde_json::from_slice(&response.patch).map_err(|error| undecodable(error.to_string()))?;
        let is_empty = operations.as_array().is_some_and(Vec::is_empty);
        let patch = Patch::try_new(operations.clone()).map_err(|error| undecodable(error.to_string()))?;
        if is_empty || operations.is_null() {
            return Ok(false);
        }
        let internal = |why: String| WebhookError::denied(Status::internal_error(why));
        let Some(new) = attributes.new_state() else {
            return Err(internal(format!(
                "admission webhook {} attempted to modify the object, which is not supported for this operation",
                go::quote(&hook.name)
            )));
        };
        if response.patch_type != "JSONPatch" {
            return Err(WebhookError::Call(format!(
                "unsupported patch type {}",
                go::quote(&response.patch_type)
            )));
        }
        let view = subject.view(new, form).map_err(WebhookError::denied)?;
        let patched = patch
            .apply(Cow::clone(&view).into_owned())
            .map_err(|error| internal(error.to_string()))?;
        let (patched, full) = form
            .complete(&patched)
            .map_err(|error| internal(error.to_string()))?;
        let changed = patched != *view;
        let note = WebhookAuditAnnotation {
            configuration: &hook.configuration,
            webhook: &hook.name,
            mutated: None,
            patch: Some(&operations),
            patch_type: Some("JSONPatch"),
        };
        note.add(&format!("patch.webhook.admission.k8s.io/{at}"), attributes.ctx);
        let view = view.into_owned();
        let full = keep_record(&view, full, attributes.warnings);
        let put_back = subject.put_back(attributes.object, full, form);
        put_back.map(|()| changed).map_err(WebhookError::denied)
    }

    /// Lets webhooks refuse the object, all at once.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go Dispatch
    pub(super) async fn validate(
        &self,
        attributes: &mut AdmissionAttributes<'_>,
        caches: &WatchCaches,
    ) -> Result<(), Status> {
        let hooks = self.hooks(WebhookKind::Validating, caches);
        let plural = &*attributes.resource.kind.plural;
        if hooks.has_none_of(plural) || attributes.is_exempt() {
            return Ok(());
        }
        let subject = VersionedAttributes::of(attributes, &self.converter);
        let new = attributes.new_state();
        let old = attributes.old_state();
        let mut asked = Vec::new();
        for (_, hook) in hooks.of(plural) {
            if let Some(form) = self.matches(hook, attributes, &subject, caches)? {
                asked.push((hook, form));
            }
        }
        let calls = asked.iter().map(|(hook, form)| {
            call::call_webhook(
                &self.outgoing,
                hook,
                WebhookKind::Validating,
                &subject,
                form,
                new,
                old,
            )
        });
        let verdicts = futures_util::future::join_all(calls).await;
        let mut refused = None;
        for (position, ((hook, _), response)) in asked.into_iter().zip(verdicts).enumerate() {
            let error = match response {
                Ok(response) => {
                    record_response(&response, hook, attributes.ctx, attributes.warnings);
                    if response.allowed {
                        continue;
                    }
                    WebhookError::denied(call::denial(hook, &response.result))
                }
                Err(error) => error,
            };
            match error.status(hook) {
                Some(status) => refused = refused.or(Some(status)),
                None => attributes.ctx.notes.add(
                    &format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{position}"),
                    hook.name.as_str(),
                ),
            }
        }
        refused.map_or(Ok(()), Err)
    }
}

/// The audit annotation of a call.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WebhookAuditAnnotation<'n> {
    configuration: &'n str,
    webhook: &'n str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mutated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<&'n Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'n str>,
}

// --- WebhookAuditAnnotation ---

impl WebhookAuditAnnotation<'_> {
    fn add(&self, key: &str, ctx: &RequestContext) {
        let text = serde_json::to_string(self).expect("a note can be written");
        ctx.notes.add(key, text);
    }
}

/// Passes the warnings and audit annotations of a webhook on.
fn record_response(
    response: &AdmissionResponse,
    hook: &WebhookAccessor,
    ctx: &RequestContext,
    warnings: &mut Vec<String>,
) {
    for (key, value) in &response.annotations {
        ctx.notes.add(&format!("{}/{key}", hook.name), value.as_str());
    }
    warnings.extend(response.warnings.iter().cloned());
}
