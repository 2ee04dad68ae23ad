//! Configurations of webhooks.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Sort, matching, reserved, rule};
use crate::{
    field::{Error, Path},
    kinds::{
        field_checks,
        webhook_client::{self, REVIEW_VERSIONS},
    },
    name,
    rules::{Circumstances, Column, Description, Errors, Row, Rules, Tree, TreeMut, named_row},
    selector::label::InvalidValues,
    time::Time,
};

pub(super) const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
pub(super) const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];

/// Resources that webhooks are never asked about: without answers to these no webhook can be called.
const EXCLUDED: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new(
        "Webhooks",
        "integer",
        Description::text("Webhooks indicates the number of webhooks registered in this configuration"),
    ),
    Column::age(),
];

/// A configuration of webhooks of this sort.
pub(super) struct Configuration(pub(super) Sort);

/// What is asked of new webhooks, and of changed ones if the old ones kept to it.
#[derive(Clone, Copy)]
struct Demands {
    conditions: bool,
    side_effects: &'static [&'static str],
    known_version: bool,
    unique_names: bool,
    values: InvalidValues,
}

// --- Configuration ---

impl Rules for Configuration {
    fn default(&self, object: &mut Value) {
        for hook in object.items_mut("webhooks") {
            hook.fill("failurePolicy", "Fail");
            hook.fill("matchPolicy", "Equivalent");
            hook.fill("namespaceSelector", json!({}));
            hook.fill("objectSelector", json!({}));
            hook.fill("timeoutSeconds", 10);
            if self.0 == Sort::Mutating {
                hook.fill("reinvocationPolicy", "Never");
            }
            webhook_client::set_defaults_service_reference(hook.make("clientConfig"));
            rule::default(hook, "rules");
        }
    }

    fn validate(&self, object: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        self.judge(object, Demands::ALL, errors);
        reserved::refuse(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        self.judge(new, Demands::of_change(new, old), errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = reserved::warn(new, old);
        let field_path = Path::new("webhooks");
        for (index, hook) in new.items("webhooks").iter().enumerate() {
            excluded(hook, &field_path.index(index).child("rules"), &mut warnings);
        }
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [json!(object.items("webhooks").len())])
    }
}

impl Configuration {
    fn judge(&self, object: &Value, demands: Demands, errors: &mut Errors) {
        let hooks = object.items("webhooks");
        let at = Path::new("webhooks");
        let mut seen = HashSet::new();
        for (index, hook) in hooks.iter().enumerate() {
            let field_path = at.index(index);
            self.judge_one(hook, demands, &field_path, errors);
            let versions = field_path.child("admissionReviewVersions");
            webhook_client::validate_review_versions(
                hook.at("admissionReviewVersions"),
                demands.known_version,
                "must specify one of v1, v1beta1",
                &versions,
                errors,
            );
            let name = hook.text("name");
            let known = !seen.insert(name);
            if demands.unique_names && known && !name.is_empty() {
                errors.push(Error::duplicate(&field_path.child("name"), name));
            }
        }
    }

    fn judge_one(&self, hook: &Value, demands: Demands, at: &Path<'_>, errors: &mut Errors) {
        errors.extend(name::fully_qualified_name(&at.child("name"), hook.text("name")));
        let field_path = at.child("rules");
        for (index, rule) in hook.items("rules").iter().enumerate() {
            rule::validate(rule, &field_path.index(index), errors);
        }
        one_of(hook, "failurePolicy", &FAILURE_POLICIES, at, errors);
        one_of(hook, "matchPolicy", &matching::MATCH_POLICIES, at, errors);
        let allowed = demands.side_effects;
        if !hook.has("sideEffects") {
            let detail = format!("must specify one of {}", allowed.join(", "));
            errors.push(Error::required(&at.child("sideEffects"), detail));
        }
        one_of(hook, "sideEffects", allowed, at, errors);
        if let Some(timeout) = hook
            .int("timeoutSeconds")
            .filter(|timeout| !(1..=30).contains(timeout))
        {
            let detail = "the timeout value must be between 1 and 30 seconds";
            errors.push(Error::invalid(&at.child("timeoutSeconds"), timeout, detail));
        }
        for name in ["namespaceSelector", "objectSelector"] {
            matching::selector(hook.at(name), demands.values, &at.child(name), errors);
        }
        if self.0 == Sort::Mutating {
            one_of(hook, "reinvocationPolicy", &REINVOCATION_POLICIES, at, errors);
        }
        webhook_client::validate_client_config(hook.at("clientConfig"), &at.child("clientConfig"), errors);
        if demands.conditions {
            matching::conditions(
                hook.items("matchConditions"),
                false,
                &at.child("matchConditions"),
                errors,
            );
        }
    }
}

fn one_of(hook: &Value, field: &str, supported: &[&str], at: &Path<'_>, errors: &mut Errors) {
    if hook.has(field) && !supported.contains(&hook.text(field)) {
        errors.push(Error::not_supported(
            &at.child(field),
            hook.text(field),
            supported,
        ));
    }
}

/// Rules that name a resource webhooks are never asked about have no effect. One that names all resources is not told:
/// nobody knows whether these were meant.
fn excluded(hook: &Value, at: &Path<'_>, warnings: &mut Vec<String>) {
    for (index, rule) in hook.items("rules").iter().enumerate() {
        let all = |list: &str| rule.texts(list).any(|item| item == "*");
        if all("apiGroups") || all("resources") {
            continue;
        }
        let mut messages: Vec<(&str, &str)> = Vec::new();
        // Few groups and resources are excluded: the others are left out before they are combined.
        let mut groups: Vec<&str> = Vec::new();
        for group in rule.texts("apiGroups") {
            if EXCLUDED.iter().any(|(of, _)| *of == group) && !groups.contains(&group) {
                groups.push(group);
            }
        }
        let mut resources: Vec<&str> = Vec::new();
        for resource in rule.texts("resources") {
            if EXCLUDED.iter().any(|(_, of)| *of == resource) && !resources.contains(&resource) {
                resources.push(resource);
            }
        }
        for group in groups {
            for resource in resources.iter().copied() {
                let pair = (group, resource);
                if EXCLUDED.contains(&pair) && !messages.contains(&pair) {
                    messages.push(pair);
                    warnings.push(format!(
                        "{}: {resource}.{group} is excluded from admission webhooks; this rule will have no effect",
                        at.index(index)
                    ));
                }
            }
        }
    }
}

// --- Demands ---

impl Demands {
    const ALL: Demands = Demands {
        conditions: true,
        side_effects: &NO_SIDE_EFFECTS,
        known_version: true,
        unique_names: true,
        values: InvalidValues::Refused,
    };

    /// What old webhooks did not keep to is not asked of the new ones.
    fn of_change(new: &Value, old: &Value) -> Self {
        let hooks = new.items("webhooks");
        let before = old.items("webhooks");
        let mut same = hooks.iter().zip(before);
        let unchanged = hooks.len() == before.len()
            && same.all(|(new, old)| new.at("matchConditions") == old.at("matchConditions"));
        let has_none = |hook: &Value| NO_SIDE_EFFECTS.contains(&hook.text("sideEffects"));
        let bad_selector = |hook: &Value| {
            ["namespaceSelector", "objectSelector"].iter().any(|name| {
                let mut errors = Errors::new();
                matching::selector(hook.at(name), InvalidValues::Refused, &Path::NOWHERE, &mut errors);
                !errors.is_empty()
            })
        };
        Demands {
            conditions: !unchanged,
            side_effects: if before.iter().all(has_none) {
                &NO_SIDE_EFFECTS
            } else {
                &SIDE_EFFECTS
            },
            known_version: before.iter().all(|hook| {
                let mut versions = hook.texts("admissionReviewVersions").peekable();
                versions.peek().is_none() || versions.any(|version| REVIEW_VERSIONS.contains(&version))
            }),
            unique_names: !field_checks::duplicate_flags(before.iter().map(|hook| hook.text("name")))
                .contains(&true),
            values: if before.iter().any(bad_selector) {
                InvalidValues::Taken
            } else {
                InvalidValues::Refused
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(hook: &Value) -> Value {
        let mut hook = hook.clone();
        for (name, value) in [
            ("name", json!("a.b.c")),
            ("clientConfig", json!({"url": "https://h"})),
            ("sideEffects", json!("None")),
            ("admissionReviewVersions", json!(["v1"])),
        ] {
            hook.fill(name, value);
        }
        let mut object = json!({"webhooks": [hook]});
        Configuration(Sort::Mutating).default(&mut object);
        object
    }

    fn messages(new: &Value, demands: Demands) -> Vec<String> {
        let mut errors = Errors::new();
        Configuration(Sort::Mutating).judge(new, demands, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_webhook_says_how_it_is_called_and_what_it_does() {
        assert_eq!(
            messages(&configuration(&json!({})), Demands::ALL),
            [] as [&str; 0]
        );
        let bad = json!({"sideEffects": "Some", "timeoutSeconds": 31, "admissionReviewVersions": ["v2"]});
        assert_eq!(
            messages(&configuration(&bad), Demands::ALL),
            [
                "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
                "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
            ]
        );
    }

    #[test]
    fn what_old_webhooks_did_not_keep_to_is_not_asked_of_new_ones() {
        let old = configuration(&json!({"sideEffects": "Some", "admissionReviewVersions": ["v2"]}));
        assert_eq!(messages(&old, Demands::of_change(&old, &old)), [] as [&str; 0]);
        let good = configuration(&json!({}));
        assert_eq!(messages(&old, Demands::of_change(&old, &good)).len(), 2);
    }

    #[test]
    fn rules_without_effect_are_told() {
        let rule = json!({"apiGroups": ["authentication.k8s.io", "x"], "resources": ["tokenreviews", "y"]});
        let object = configuration(&json!({"rules": [rule]}));
        assert_eq!(
            Configuration(Sort::Validating).warnings(&object, None),
            [
                "webhooks[0].rules[0]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule \
                 will have no effect",
            ]
        );
    }
}
