//! Reinvocation of webhooks and policies after a later change of the object.
//!
//! There are at most two rounds. In the second round all plugins run again, and those webhooks and policies with
//! `reinvocationPolicy: IfNeeded` after which the object was changed; none is invoked there for the first time.

use std::collections::BTreeSet;

use serde_json::Value;

/// What those of one sort have done, over both rounds.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/reinvocationcontext.go webhookReinvokeContext
#[derive(Debug, Default)]
pub(super) struct ReinvocationContext {
    /// Whether it is the second one.
    again: bool,
    /// Whether there must be a second one.
    wanted: bool,
    /// The object as the first round left it.
    left: Option<Value>,
    /// Those that were asked, want to be asked again, and after whom nothing was changed yet.
    waiting: BTreeSet<String>,
    /// Those that are asked in the second round.
    called: BTreeSet<String>,
}

// --- ReinvocationContext ---

impl ReinvocationContext {
    /// Begins a round with an object.
    pub(super) fn begin(&mut self, object: Option<&Value>) {
        if self.again && self.left.as_ref() != object {
            self.recall();
        }
    }

    /// Ends a round with an object.
    pub(super) fn end(&mut self, object: Option<&Value>) {
        if !self.again && !self.waiting.is_empty() {
            self.left = object.cloned();
        }
    }

    /// Whether a webhook or policy is invoked in this round.
    pub(super) fn includes(&self, id: &str) -> bool {
        !self.again || self.called.contains(id)
    }

    /// Records an invocation.
    pub(super) fn invoked(&mut self, id: &str, changed: bool, again: bool) {
        if changed {
            self.recall();
            self.wanted = true;
        }
        if again {
            self.waiting.insert(id.to_owned());
        }
    }

    /// The number of the round.
    pub(super) fn number(&self) -> usize {
        usize::from(self.again)
    }

    /// Starts the second round for all kinds if one of them needs it. Returns whether there is a second round; there is no
    /// third.
    pub(super) fn go_on<const N: usize>(rounds: [&mut ReinvocationContext; N]) -> bool {
        let wanted = rounds.iter().any(|round| round.wanted && !round.again);
        let is_over = rounds.iter().any(|round| round.again);
        for round in rounds {
            round.again = true;
        }
        wanted && !is_over
    }

    /// All that wait are asked again.
    fn recall(&mut self) {
        self.called.append(&mut self.waiting);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reinvokes_after_later_change() {
        let mut round = ReinvocationContext::default();
        round.begin(Some(&json!(0)));
        round.invoked("first", false, true);
        round.invoked("second", true, true);
        round.invoked("third", false, false);
        round.end(Some(&json!(1)));
        assert!(ReinvocationContext::go_on([&mut round]));
        round.begin(Some(&json!(1)));
        // The second one saw its own change.
        assert_eq!(
            ["first", "second", "third", "new"].map(|id| round.includes(id)),
            [true, false, false, false]
        );
    }

    #[test]
    fn reinvokes_all_after_plugin_change() {
        let mut round = ReinvocationContext::default();
        round.begin(Some(&json!(0)));
        round.invoked("a", true, true);
        round.invoked("b", false, false);
        round.end(Some(&json!(1)));
        assert!(ReinvocationContext::go_on([&mut round]));
        round.begin(Some(&json!(2)));
        assert_eq!(["a", "b"].map(|id| round.includes(id)), [true, false]);
    }

    #[test]
    fn no_reinvocation_without_change() {
        let mut round = ReinvocationContext::default();
        round.invoked("a", false, true);
        assert!(!ReinvocationContext::go_on([&mut round]));
    }
}
