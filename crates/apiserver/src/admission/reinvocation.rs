//! Reinvocation of webhooks and policies after a later change of the object.
//!
//! Mutating admission runs at most twice. In the second pass all built-in plugins run again, and those webhooks and policies with
//! `reinvocationPolicy: IfNeeded` after whose invocation the object was changed. None is invoked in the second pass for the first
//! time.

use std::collections::BTreeSet;

use k3_api::strategy::Tree;
use serde_json::Value;

/// The invocations of mutating webhooks (or of mutating policies) for one request, over both passes.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/reinvocationcontext.go webhookReinvokeContext
#[derive(Debug, Default)]
pub(super) struct ReinvocationContext {
    /// Whether this is the second pass.
    is_reinvoke: bool,
    /// Whether an invocation changed the object, so that a second pass is necessary.
    should_reinvoke: bool,
    /// The object at the end of the first pass.
    last_object: Option<Value>,
    /// Webhooks with `IfNeeded` that were invoked, and after which the object has not changed yet.
    previously_invoked: BTreeSet<String>,
    /// Webhooks that are invoked in the second pass.
    reinvoke: BTreeSet<String>,
}

/// What an invocation made of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InvocationEffect {
    Unchanged,
    Changed,
}

/// `reinvocationPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReinvocationPolicy {
    Never,
    IfNeeded,
}

// --- ReinvocationPolicy ---

impl ReinvocationPolicy {
    /// The policy of a webhook, or of the `spec` of a policy.
    pub(super) fn read(tree: &Value) -> Self {
        match tree.text("reinvocationPolicy") {
            "IfNeeded" => ReinvocationPolicy::IfNeeded,
            _ => ReinvocationPolicy::Never,
        }
    }
}

// --- ReinvocationContext ---

impl ReinvocationContext {
    /// Starts a pass with an object. If a built-in plugin changed it since the first pass, the webhooks are invoked again.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/reinvocationcontext.go IsOutputChangedSinceLastWebhookInvocation
    pub(super) fn begin_pass(&mut self, object: Option<&Value>) {
        if self.is_reinvoke && self.last_object.as_ref() != object {
            self.require_reinvocation();
        }
    }

    /// Ends a pass with an object.
    pub(super) fn end_pass(&mut self, object: Option<&Value>) {
        if !self.is_reinvoke && !self.previously_invoked.is_empty() {
            self.last_object = object.cloned();
        }
    }

    /// Whether a webhook or policy is invoked in this pass.
    pub(super) fn should_invoke(&self, id: &str) -> bool {
        !self.is_reinvoke || self.reinvoke.contains(id)
    }

    /// Records an invocation.
    pub(super) fn record_invocation(
        &mut self,
        id: &str,
        effect: InvocationEffect,
        policy: ReinvocationPolicy,
    ) {
        // The order matters: a webhook is not invoked again because of its own change.
        if effect == InvocationEffect::Changed {
            self.require_reinvocation();
            self.should_reinvoke = true;
        }
        if policy == ReinvocationPolicy::IfNeeded {
            self.previously_invoked.insert(id.to_owned());
        }
    }

    /// The number of the pass: 0 or 1.
    pub(super) fn pass_number(&self) -> usize {
        usize::from(self.is_reinvoke)
    }

    /// Starts the second pass for webhooks and policies if one of them changed the object. Returns whether there is a second pass;
    /// there is no third.
    pub(super) fn start_reinvocation<const N: usize>(contexts: [&mut ReinvocationContext; N]) -> bool {
        let should_reinvoke = contexts
            .iter()
            .any(|context| context.should_reinvoke && !context.is_reinvoke);
        let is_second_pass = contexts.iter().any(|context| context.is_reinvoke);
        for context in contexts {
            context.is_reinvoke = true;
        }
        should_reinvoke && !is_second_pass
    }

    /// Invokes all webhooks again that were invoked before this change.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/reinvocationcontext.go RequireReinvokingPreviouslyInvokedPlugins
    fn require_reinvocation(&mut self) {
        self.reinvoke.append(&mut self.previously_invoked);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{InvocationEffect::*, ReinvocationPolicy::*, *};

    #[test]
    fn reinvokes_after_later_change() {
        let mut context = ReinvocationContext::default();
        context.begin_pass(Some(&json!(0)));
        context.record_invocation("first", Unchanged, IfNeeded);
        context.record_invocation("second", Changed, IfNeeded);
        context.record_invocation("third", Unchanged, Never);
        context.end_pass(Some(&json!(1)));
        assert!(ReinvocationContext::start_reinvocation([&mut context]));
        context.begin_pass(Some(&json!(1)));
        // The second webhook is not invoked again because of its own change.
        assert_eq!(
            ["first", "second", "third", "new"].map(|id| context.should_invoke(id)),
            [true, false, false, false]
        );
    }

    #[test]
    fn reinvokes_all_after_plugin_change() {
        let mut context = ReinvocationContext::default();
        context.begin_pass(Some(&json!(0)));
        context.record_invocation("a", Changed, IfNeeded);
        context.record_invocation("b", Unchanged, Never);
        context.end_pass(Some(&json!(1)));
        assert!(ReinvocationContext::start_reinvocation([&mut context]));
        context.begin_pass(Some(&json!(2)));
        assert_eq!(["a", "b"].map(|id| context.should_invoke(id)), [true, false]);
    }

    #[test]
    fn no_reinvocation_without_change() {
        let mut context = ReinvocationContext::default();
        context.record_invocation("a", Unchanged, IfNeeded);
        assert!(!ReinvocationContext::start_reinvocation([&mut context]));
    }
}
