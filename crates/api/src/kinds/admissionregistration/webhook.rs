//! ValidatingWebhookConfiguration and MutatingWebhookConfiguration.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{AdmissionType, matching, rule, static_suffix};
use crate::{
    admission::OptionalVariableDeclarations,
    field::{Error, Path},
    kinds::{
        field_checks,
        webhook_client::{self, REVIEW_VERSIONS},
    },
    name,
    selector::label::InvalidValues,
    strategy::{
        Column, ColumnDescription, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row,
    },
    time::Time,
};

pub(super) const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
pub(super) const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];

/// Resources that are never sent to webhooks: no webhook can be called without them.
const EXCLUDED_RESOURCES: [(&str, &str); 6] = [
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
        ColumnDescription::text("Webhooks indicates the number of webhooks registered in this configuration"),
    ),
    Column::age(),
];

pub(super) struct WebhookConfiguration(pub(super) AdmissionType);

/// Rules for new webhooks, and for updated ones if the old ones satisfied them.
// upstream: pkg/apis/admissionregistration/validation/validation.go validationOptions
#[derive(Clone, Copy)]
struct WebhookValidationOptions {
    conditions: bool,
    side_effects: &'static [&'static str],
    known_version: bool,
    unique_names: bool,
    values: InvalidValues,
}

// --- Configuration ---

// upstream: pkg/registry/admissionregistration/validatingwebhookconfiguration/strategy.go validatingWebhookConfigurationStrategy
impl RestStrategy for WebhookConfiguration {
    // upstream: pkg/apis/admissionregistration/v1/defaults.go SetDefaults_ValidatingWebhook, SetDefaults_MutatingWebhook
    fn set_defaults(&self, object: &mut Value) {
        for hook in object.items_mut("webhooks") {
            hook.set_default("failurePolicy", "Fail");
            hook.set_default("matchPolicy", "Equivalent");
            hook.set_default("namespaceSelector", json!({}));
            hook.set_default("objectSelector", json!({}));
            hook.set_default("timeoutSeconds", 10);
            if self.0 == AdmissionType::Mutating {
                hook.set_default("reinvocationPolicy", "Never");
            }
            webhook_client::set_defaults_service_reference(hook.ensure_object("clientConfig"));
            rule::set_defaults_rules(hook, "rules");
        }
    }

    // upstream: pkg/apis/admissionregistration/validation/validation.go ValidateValidatingWebhookConfiguration, ValidateMutatingWebhookConfiguration
    fn validate(&self, object: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        self.validate_webhooks(object, WebhookValidationOptions::ALL, errors);
        static_suffix::validate_static_suffix(object, errors);
    }

    // upstream: pkg/apis/admissionregistration/validation/validation.go ValidateValidatingWebhookConfigurationUpdate, ValidateMutatingWebhookConfigurationUpdate
    fn validate_update(&self, new: &Value, old: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        self.validate_webhooks(new, WebhookValidationOptions::from_old(new, old), errors);
    }

    // upstream: pkg/apis/admissionregistration/validation/warnings.go WarningsForValidatingWebhookRules, WarningsForMutatingWebhookRules
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = static_suffix::warnings_for_static_suffix(new, old);
        let field_path = Path::new("webhooks");
        for (index, hook) in new.items("webhooks").iter().enumerate() {
            warn_of_excluded_resources(hook, &field_path.index(index).child("rules"), &mut warnings);
        }
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printValidatingWebhook, printMutatingWebhook
    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [json!(object.items("webhooks").len())])
    }
}

impl WebhookConfiguration {
    // upstream: pkg/apis/admissionregistration/validation/validation.go validateValidatingWebhookConfiguration, validateMutatingWebhookConfiguration
    fn validate_webhooks(&self, object: &Value, options: WebhookValidationOptions, errors: &mut ErrorList) {
        let hooks = object.items("webhooks");
        let at = Path::new("webhooks");
        let mut seen = HashSet::new();
        for (index, hook) in hooks.iter().enumerate() {
            let field_path = at.index(index);
            self.validate_webhook(hook, options, &field_path, errors);
            let versions = field_path.child("admissionReviewVersions");
            webhook_client::validate_review_versions(
                hook.at("admissionReviewVersions"),
                "must specify one of v1, v1beta1",
                &versions,
                errors,
            );
            if options.known_version {
                webhook_client::validate_known_review_version(
                    hook.at("admissionReviewVersions"),
                    &versions,
                    errors,
                );
            }
            let name = hook.text("name");
            let is_duplicate = !seen.insert(name);
            if options.unique_names && is_duplicate && !name.is_empty() {
                errors.push(Error::duplicate(&field_path.child("name"), name));
            }
        }
    }

    // upstream: pkg/apis/admissionregistration/validation/validation.go validateValidatingWebhook, validateMutatingWebhook
    fn validate_webhook(
        &self,
        hook: &Value,
        options: WebhookValidationOptions,
        at: &Path<'_>,
        errors: &mut ErrorList,
    ) {
        errors.extend(name::validate_fully_qualified_name(
            &at.child("name"),
            hook.text("name"),
        ));
        let field_path = at.child("rules");
        for (index, rule) in hook.items("rules").iter().enumerate() {
            rule::validate_rule_with_operations(rule, &field_path.index(index), errors);
        }
        validate_required_enum(hook, "failurePolicy", &FAILURE_POLICIES, at, errors);
        validate_required_enum(hook, "matchPolicy", &matching::MATCH_POLICIES, at, errors);
        let allowed = options.side_effects;
        if !hook.has("sideEffects") {
            let detail = format!("must specify one of {}", allowed.join(", "));
            errors.push(Error::required(&at.child("sideEffects"), detail));
        }
        validate_required_enum(hook, "sideEffects", allowed, at, errors);
        if let Some(timeout) = hook
            .int("timeoutSeconds")
            .filter(|timeout| !(1..=30).contains(timeout))
        {
            let detail = "the timeout value must be between 1 and 30 seconds";
            errors.push(Error::invalid(&at.child("timeoutSeconds"), timeout, detail));
        }
        for name in ["namespaceSelector", "objectSelector"] {
            matching::validate_selector(hook.at(name), options.values, &at.child(name), errors);
        }
        if self.0 == AdmissionType::Mutating {
            validate_required_enum(hook, "reinvocationPolicy", &REINVOCATION_POLICIES, at, errors);
        }
        webhook_client::validate_client_config(hook.at("clientConfig"), &at.child("clientConfig"), errors);
        if options.conditions {
            matching::validate_match_conditions(
                hook.items("matchConditions"),
                OptionalVariableDeclarations {
                    params: false,
                    authorizer: true,
                },
                &at.child("matchConditions"),
                errors,
            );
        }
    }
}

fn validate_required_enum(
    hook: &Value,
    field: &str,
    supported: &[&str],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if hook.has(field) && !supported.contains(&hook.text(field)) {
        errors.push(Error::not_supported(
            &at.child(field),
            hook.text(field),
            supported,
        ));
    }
}

/// Warns of rules that name a resource that is never sent to webhooks. A wildcard gives no warning: its intent is unknown.
// upstream: pkg/apis/admissionregistration/validation/warnings.go warningsForExcludedRules, excludedResourcesNamedByRule
fn warn_of_excluded_resources(hook: &Value, at: &Path<'_>, warnings: &mut Vec<String>) {
    for (index, rule) in hook.items("rules").iter().enumerate() {
        let all = |list: &str| rule.texts(list).any(|item| item == "*");
        if all("apiGroups") || all("resources") {
            continue;
        }
        let mut messages: Vec<(&str, &str)> = Vec::new();
        // Few groups and resources are excluded: filter them before they are combined.
        let mut groups: Vec<&str> = Vec::new();
        for group in rule.texts("apiGroups") {
            if EXCLUDED_RESOURCES
                .iter()
                .any(|(excluded_group, _)| *excluded_group == group)
                && !groups.contains(&group)
            {
                groups.push(group);
            }
        }
        let mut resources: Vec<&str> = Vec::new();
        for resource in rule.texts("resources") {
            if EXCLUDED_RESOURCES
                .iter()
                .any(|(_, excluded_resource)| *excluded_resource == resource)
                && !resources.contains(&resource)
            {
                resources.push(resource);
            }
        }
        for group in groups {
            for resource in resources.iter().copied() {
                let pair = (group, resource);
                if EXCLUDED_RESOURCES.contains(&pair) && !messages.contains(&pair) {
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

impl WebhookValidationOptions {
    const ALL: WebhookValidationOptions = WebhookValidationOptions {
        conditions: true,
        side_effects: &NO_SIDE_EFFECTS,
        known_version: true,
        unique_names: true,
        values: InvalidValues::Refused,
    };

    /// Rules that the old webhooks violate do not apply to the new ones.
    // upstream: pkg/apis/admissionregistration/validation/validation.go ValidateValidatingWebhookConfigurationUpdate
    fn from_old(new: &Value, old: &Value) -> Self {
        let hooks = new.items("webhooks");
        let before = old.items("webhooks");
        let mut same = hooks.iter().zip(before);
        let unchanged = hooks.len() == before.len()
            && same.all(|(new, old)| new.at("matchConditions") == old.at("matchConditions"));
        let has_none = |hook: &Value| NO_SIDE_EFFECTS.contains(&hook.text("sideEffects"));
        let bad_selector = |hook: &Value| {
            ["namespaceSelector", "objectSelector"].iter().any(|name| {
                let mut errors = ErrorList::new();
                matching::validate_selector(hook.at(name), InvalidValues::Refused, &Path::NIL, &mut errors);
                !errors.is_empty()
            })
        };
        WebhookValidationOptions {
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
            hook.set_default(name, value);
        }
        let mut object = json!({"webhooks": [hook]});
        WebhookConfiguration(AdmissionType::Mutating).set_defaults(&mut object);
        object
    }

    fn messages(new: &Value, options: WebhookValidationOptions) -> Vec<String> {
        let mut errors = ErrorList::new();
        WebhookConfiguration(AdmissionType::Mutating).validate_webhooks(new, options, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rejects_incomplete_webhooks() {
        assert_eq!(
            messages(&configuration(&json!({})), WebhookValidationOptions::ALL),
            [] as [&str; 0]
        );
        let bad = json!({"sideEffects": "Some", "timeoutSeconds": 31, "admissionReviewVersions": ["v2"]});
        assert_eq!(
            messages(&configuration(&bad), WebhookValidationOptions::ALL),
            [
                "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
                "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
            ]
        );
    }

    #[test]
    fn relaxes_rules_that_old_webhooks_violate() {
        let old = configuration(&json!({"sideEffects": "Some", "admissionReviewVersions": ["v2"]}));
        assert_eq!(
            messages(&old, WebhookValidationOptions::from_old(&old, &old)),
            [] as [&str; 0]
        );
        let good = configuration(&json!({}));
        assert_eq!(
            messages(&old, WebhookValidationOptions::from_old(&old, &good)).len(),
            2
        );
    }

    #[test]
    fn warns_of_rules_without_effect() {
        let rule = json!({"apiGroups": ["authentication.k8s.io", "x"], "resources": ["tokenreviews", "y"]});
        let object = configuration(&json!({"rules": [rule]}));
        assert_eq!(
            WebhookConfiguration(AdmissionType::Validating).warnings(&object, None),
            [
                "webhooks[0].rules[0]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule \
                 will have no effect",
            ]
        );
    }
}
