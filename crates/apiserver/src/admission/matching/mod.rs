//! Which requests a webhook or a policy matches: by rules, and by the labels of the namespace and the object.
//!
//! With `matchPolicy: Equivalent` a rule for another version of the same objects matches too; the webhook or policy then sees
//! the object in the version of the rule. An invalid selector is an error only for requests that it would decide.

mod rule;

use k3_api::{
    selector::label::{self, FromObjectError, Labels, Selector},
    status::{GroupResource, Status},
    strategy::Tree,
};
use serde_json::Value;

use self::rule::MatchRule;
use super::{
    Operation, object,
    versioned_attributes::{VersionedAttributes, VersionedResource},
};
use crate::cache::WatchCaches;

/// What must hold of a request.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/matching/matching.go Matches, matchesResourceRules
#[derive(Debug)]
pub(super) struct MatchCriteria {
    /// `None`: all requests.
    rules: Option<Vec<MatchRule>>,
    excluded: Vec<MatchRule>,
    policy: MatchPolicy,
    namespaces: Result<Selector, FromObjectError>,
    objects: Result<Selector, FromObjectError>,
}

/// `matchPolicy`: which forms of a request rules are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchPolicy {
    /// The version that a rule names.
    Exact,
    /// The same objects in other versions, too.
    Equivalent,
}

/// The labels in a tree.
pub(super) struct TreeLabels<'t>(pub &'t Value);

impl Labels for TreeLabels<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    fn visit(&self, see: &mut dyn FnMut(&str, &str)) {
        if let Some(labels) = self.0.as_object() {
            labels.visit(see);
        }
    }
}

// --- MatchPolicy ---

impl MatchPolicy {
    /// Without a policy that is known, rules cannot be evaded by another version of the same objects.
    // upstream: pkg/apis/admissionregistration/v1/defaults.go SetDefaults_ValidatingWebhook, SetDefaults_MatchResources
    fn read(tree: &Value) -> Self {
        match tree.text("matchPolicy") {
            "Exact" => MatchPolicy::Exact,
            _ => MatchPolicy::Equivalent,
        }
    }
}

// --- MatchCriteria ---

impl MatchCriteria {
    /// Those of a webhook.
    pub(super) fn of_webhook(webhook: &Value) -> Self {
        MatchCriteria {
            rules: Some(read_rules(webhook, "rules")),
            ..Self::of_resources(webhook)
        }
    }

    /// Those of a policy or a binding. No rules: all requests.
    pub(super) fn of_resources(matching: &Value) -> Self {
        let selector = |name: &str| match matching.at(name) {
            Value::Null => Ok(Selector::new(Vec::new())),
            selector => label::from_object(Some(selector)),
        };
        let rules = read_rules(matching, "resourceRules");
        MatchCriteria {
            rules: (!rules.is_empty()).then_some(rules),
            excluded: read_rules(matching, "excludeResourceRules"),
            policy: MatchPolicy::read(matching),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// The resources that it names; `None` if it may be about any.
    pub(super) fn resources(&self) -> Option<Vec<&str>> {
        let named: Vec<&str> = self
            .rules
            .as_ref()?
            .iter()
            .flat_map(MatchRule::resources)
            .collect();
        (!named.contains(&"*")).then_some(named)
    }

    /// The form in which a request is meant; `None` if it is not.
    pub(super) fn matches(
        &self,
        subject: &VersionedAttributes<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
        caches: &WatchCaches,
    ) -> Result<Option<VersionedResource>, Status> {
        // Rules are cheapest, and which of the three refuses first makes no difference.
        if find(&self.excluded, self.policy, subject).is_some() {
            return Ok(None);
        }
        let form = match &self.rules {
            None => subject.form.clone(),
            Some(rules) => match find(rules, self.policy, subject) {
                Some(form) => form,
                None => return Ok(None),
            },
        };
        let by_namespace = self.is_in_namespace(subject, new, caches);
        let by_object = self.is_labelled(new, old);
        // An error counts only if the other one does not say no.
        if matches!(by_namespace, Ok(false)) || matches!(by_object, Ok(false)) {
            return Ok(None);
        }
        by_namespace?;
        by_object?;
        Ok(Some(form))
    }

    fn is_in_namespace(
        &self,
        subject: &VersionedAttributes<'_>,
        new: Option<&Value>,
        caches: &WatchCaches,
    ) -> Result<bool, Status> {
        let is_namespace = &*subject.form.whole.plural == "namespaces";
        if subject.namespace.is_empty() && !is_namespace {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(Status::internal_error)?;
        if selector.is_empty() {
            return Ok(true);
        }
        let is_written = matches!(subject.operation, Operation::Create | Operation::Update);
        // The namespace itself is not there yet, or still as it was.
        if is_namespace && subject.subresource.is_empty() && is_written {
            let labels = new.unwrap_or(&Value::Null).at("metadata").at("labels");
            return Ok(selector.matches(&TreeLabels(labels)));
        }
        let namespace = object("", "namespaces", "", &subject.namespace, caches)
            .ok_or_else(|| Status::not_found(GroupResource::new("", "namespaces"), &subject.namespace))?;
        Ok(selector.matches(&TreeLabels(namespace.at("metadata").at("labels"))))
    }

    /// Whether the object has the labels, as it is or as it would be.
    fn is_labelled(&self, new: Option<&Value>, old: Option<&Value>) -> Result<bool, Status> {
        let selector = self.objects.as_ref().map_err(Status::internal_error)?;
        if selector.is_empty() {
            return Ok(true);
        }
        let mut states = [new, old].into_iter().flatten();
        Ok(states.any(|state| {
            // What is not an object of the API has no labels at all, not even none.
            state.has("metadata") && selector.matches(&TreeLabels(state.at("metadata").at("labels")))
        }))
    }
}

fn read_rules(tree: &Value, name: &str) -> Vec<MatchRule> {
    tree.items(name).iter().map(MatchRule::read).collect()
}

/// The form in which the first rule matches.
fn find(
    rules: &[MatchRule],
    policy: MatchPolicy,
    subject: &VersionedAttributes<'_>,
) -> Option<VersionedResource> {
    if rules.iter().any(|rule| rule.matches(subject, &subject.form)) {
        return Some(subject.form.clone());
    }
    if policy == MatchPolicy::Exact {
        return None;
    }
    rules.iter().find_map(|rule| {
        subject
            .equivalents()
            .find(|equivalent| rule.matches(subject, equivalent))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_without_known_match_policy_mean_all_versions() {
        let policy = |text: &str| MatchPolicy::read(&json!({"matchPolicy": text}));
        assert_eq!(policy("Exact"), MatchPolicy::Exact);
        assert_eq!(policy("Equivalent"), MatchPolicy::Equivalent);
        assert_eq!(policy("exact"), MatchPolicy::Equivalent);
        assert_eq!(MatchPolicy::read(&json!({})), MatchPolicy::Equivalent);
    }
}
