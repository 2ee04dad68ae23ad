//! Roles, of a namespace or of the cluster: what may be done with which resources.

use serde_json::Value;

use crate::{
    field::{Error, Path, Shown},
    kinds::Scope,
    name::Rule,
    rules::{Circumstances, Errors, Rules, Tree},
    selector::label::{self, InvalidValues, Selector, UnknownOperators},
};

/// The rules of roles, and of roles of the cluster.
pub(super) struct Role(pub(super) Scope);

impl Rules for Role {
    fn names(&self) -> Rule {
        Rule::PathSegment
    }

    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        self.validate_all(object, InvalidValues::Refused, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let malformed = selectors(old).iter().any(|selector| {
            let values = InvalidValues::Refused;
            let operators = UnknownOperators::Refused;
            !label::validate(&Path::NOWHERE, selector, values, operators).is_empty()
        });
        let values = if malformed {
            InvalidValues::Taken
        } else {
            InvalidValues::Refused
        };
        self.validate_all(new, values, errors);
    }

    fn creates_on_update(&self) -> bool {
        true
    }
}

// --- Role ---

impl Role {
    fn validate_all(&self, object: &Value, values: InvalidValues, errors: &mut Errors) {
        let list = Path::new("rules");
        for (index, rule) in object.items("rules").iter().enumerate() {
            validate_rule(rule, self.0, &list.index(index), errors);
        }
        if self.0 == Scope::Cluster && object.has("aggregationRule") {
            validate_aggregation(selectors(object), values, errors);
        }
        // What the schema asks for is told last.
        for (index, rule) in object.items("rules").iter().enumerate() {
            if rule.items("verbs").is_empty() {
                errors.push(Error::required(&list.index(index).child("verbs"), ""));
            }
        }
    }
}

fn selectors(object: &Value) -> &[Value] {
    object.at("aggregationRule").items("clusterRoleSelectors")
}

fn validate_rule(rule: &Value, scope: Scope, at: &Path<'_>, errors: &mut Errors) {
    if !rule.items("nonResourceURLs").is_empty() {
        let at = at.child("nonResourceURLs");
        let urls = rule.at("nonResourceURLs");
        if scope == Scope::Namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(Error::invalid(&at, urls, detail));
        }
        if ["apiGroups", "resources", "resourceNames"]
            .iter()
            .any(|field| !rule.items(field).is_empty())
        {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(Error::invalid(&at, urls, detail));
        }
        return;
    }
    for (field, detail) in [
        ("apiGroups", "resource rules must supply at least one api group"),
        ("resources", "resource rules must supply at least one resource"),
    ] {
        if rule.items(field).is_empty() {
            errors.push(Error::required(&at.child(field), detail));
        }
    }
}

fn validate_aggregation(selectors: &[Value], values: InvalidValues, errors: &mut Errors) {
    let root = Path::new("aggregationRule");
    let list = root.child("clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(Error::required(&list, detail));
    }
    for (index, selector) in selectors.iter().enumerate() {
        let at = list.index(index);
        errors.extend(label::validate(&at, selector, values, UnknownOperators::Refused));
        if Selector::from_object(Some(selector)).is_err() {
            let nothing = Shown::Json(Value::Null);
            errors.push(Error::invalid(&at, nothing, "invalid label selector."));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(scope: Scope, object: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        Role(scope).validate_all(object, InvalidValues::Refused, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_rule_is_about_resources_or_about_urls() {
        let object =
            json!({"rules": [{"nonResourceURLs": ["/a"], "resources": ["pods"]}, {"verbs": ["get"]}]});
        assert_eq!(
            errors(Scope::Namespaced, &object),
            [
                "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: namespaced rules cannot apply to non-resource URLs",
                "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular resources and \
                 non-resource URLs",
                "rules[1].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[1].resources: Required value: resource rules must supply at least one resource",
                "rules[0].verbs: Required value",
            ]
        );
        assert_eq!(errors(Scope::Cluster, &object).len(), 4);
    }

    #[test]
    fn selectors_of_aggregated_roles_are_judged_twice() {
        let object = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "X"}]}]}});
        assert_eq!(
            errors(Scope::Cluster, &object),
            [
                "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: \"X\": not a valid \
                 selector operator",
                "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
            ]
        );
    }
}
