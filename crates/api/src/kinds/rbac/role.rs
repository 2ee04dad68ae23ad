//! Role and ClusterRole: the actions that are allowed on resources.

use serde_json::Value;

use crate::{
    field::{BadValue, Error, Path},
    kinds::Scope,
    name::NameFormat,
    selector::label::{self, InvalidValues, UnknownOperators},
    strategy::{ErrorList, RestStrategy, StrategyContext, Tree},
};

pub(super) struct RoleStrategy(pub(super) Scope);

// upstream: pkg/registry/rbac/role/strategy.go strategy
impl RestStrategy for RoleStrategy {
    fn name_format(&self) -> NameFormat {
        NameFormat::PathSegment
    }

    // upstream: pkg/apis/rbac/validation/validation.go ValidateRole
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        self.validate_role(object, InvalidValues::Refused, errors);
    }

    // upstream: pkg/apis/rbac/validation/validation.go ValidateRoleUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let malformed = cluster_role_selectors(old).iter().any(|selector| {
            let values = InvalidValues::Refused;
            let operators = UnknownOperators::Refused;
            !label::validate(&Path::NIL, selector, values, operators).is_empty()
        });
        let values = if malformed {
            InvalidValues::Taken
        } else {
            InvalidValues::Refused
        };
        self.validate_role(new, values, errors);
    }

    // upstream: pkg/registry/rbac/role/strategy.go AllowCreateOnUpdate
    fn allow_create_on_update(&self) -> bool {
        true
    }
}

// --- RoleStrategy ---

impl RoleStrategy {
    // upstream: pkg/apis/rbac/validation/validation.go ValidateRole, ValidateClusterRole
    fn validate_role(&self, object: &Value, values: InvalidValues, errors: &mut ErrorList) {
        let list = Path::new("rules");
        for (index, rule) in object.items("rules").iter().enumerate() {
            validate_policy_rule(rule, self.0, &list.index(index), errors);
        }
        if self.0 == Scope::Cluster && object.has("aggregationRule") {
            validate_aggregation_rule(cluster_role_selectors(object), values, errors);
        }
        // Declarative validation runs after the hand-written one, so its errors are last.
        for (index, rule) in object.items("rules").iter().enumerate() {
            if rule.items("verbs").is_empty() {
                errors.push(Error::required(&list.index(index).child("verbs"), ""));
            }
        }
    }
}

fn cluster_role_selectors(object: &Value) -> &[Value] {
    object.at("aggregationRule").items("clusterRoleSelectors")
}

// upstream: pkg/apis/rbac/validation/validation.go ValidatePolicyRule
fn validate_policy_rule(rule: &Value, scope: Scope, at: &Path<'_>, errors: &mut ErrorList) {
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

// upstream: pkg/apis/rbac/validation/validation.go ValidateClusterRole
fn validate_aggregation_rule(selectors: &[Value], values: InvalidValues, errors: &mut ErrorList) {
    let root = Path::new("aggregationRule");
    let list = root.child("clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(Error::required(&list, detail));
    }
    for (index, selector) in selectors.iter().enumerate() {
        let at = list.index(index);
        errors.extend(label::validate(&at, selector, values, UnknownOperators::Refused));
        if label::from_object(Some(selector)).is_err() {
            let nothing = BadValue::Json(Value::Null);
            errors.push(Error::invalid(&at, nothing, "invalid label selector."));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(scope: Scope, object: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        RoleStrategy(scope).validate_role(object, InvalidValues::Refused, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rejects_rules_for_both_resources_and_urls() {
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
    fn reports_invalid_aggregation_selectors_twice() {
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
