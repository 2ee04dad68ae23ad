//! ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding.

use serde_json::{Value, json};

use super::{AdmissionType, matching, rule, static_suffix};
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name,
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, named_row},
    time::Time,
};

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
const DENY_AND_WARN: &str = "must not contain both Deny and Warn (repeating the same validation failure information in \
    the API response and headers serves no purpose)";

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text(
        "PolicyName",
        "PolicyName indicates the policy definition which the policy binding binded to",
    ),
    Column::text(
        "ParamRef",
        "ParamRef indicates the param resource which sets the configuration param",
    ),
    Column::age(),
];

pub(super) struct AdmissionPolicyBinding(pub(super) AdmissionType);

// upstream: pkg/registry/admissionregistration/validatingadmissionpolicybinding/strategy.go validatingAdmissionPolicyBindingStrategy
impl RestStrategy for AdmissionPolicyBinding {
    fn set_defaults(&self, object: &mut Value) {
        if let Some(spec) = object.get_mut("spec") {
            matching::set_defaults_match_resources(spec, "matchResources");
        }
    }

    // upstream: pkg/apis/admissionregistration/validation/validation.go ValidateValidatingAdmissionPolicyBinding, ValidateMutatingAdmissionPolicyBinding
    fn validate(&self, object: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        self.validate_binding_spec(object.at("spec"), errors);
        static_suffix::validate_static_suffix(object, errors);
        self.require_fields(object.at("spec"), errors);
    }

    // upstream: pkg/apis/admissionregistration/validation/validation.go ValidateValidatingAdmissionPolicyBindingUpdate, ValidateMutatingAdmissionPolicyBindingUpdate
    fn validate_update(&self, new: &Value, _old: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        self.validate_binding_spec(new.at("spec"), errors);
        self.require_fields(new.at("spec"), errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        static_suffix::warnings_for_static_suffix(new, old)
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

    // upstream: pkg/printers/internalversion/printers.go printValidatingAdmissionPolicyBinding, printMutatingAdmissionPolicyBinding
    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let cells = [
            json!(spec.text("policyName")),
            json!(format_param_ref(spec.at("paramRef"))),
        ];
        named_row(object, now, cells)
    }
}

impl AdmissionPolicyBinding {
    // upstream: pkg/apis/admissionregistration/validation/validation.go validateValidatingAdmissionPolicyBindingSpec, validateMutatingAdmissionPolicyBindingSpec
    fn validate_binding_spec(&self, spec: &Value, errors: &mut ErrorList) {
        let at = Path::new("spec");
        let policy = spec.text("policyName");
        let field_path = at.child("policyName");
        if !policy.is_empty() {
            field_checks::push_invalid(
                policy,
                name::validate_dns1123_subdomain(policy),
                &field_path,
                errors,
            );
        } else if self.0 == AdmissionType::Mutating {
            errors.push(Error::required(&field_path, ""));
        }
        matching::validate_param_ref(spec.at("paramRef"), &at.child("paramRef"), errors);
        let resources = spec.at("matchResources");
        let field_path = at.child("matchResources");
        if !resources.is_null() {
            matching::validate_match_resources(resources, &field_path, errors);
        }
        match self.0 {
            AdmissionType::Mutating => {
                let rules = resources.items("resourceRules");
                rule::validate_mutating_operations(rules, &field_path.child("resourceRules"), errors);
            }
            AdmissionType::Validating => {
                validate_validation_actions(spec, &at.child("validationActions"), errors);
            }
        }
    }

    /// Declarative validation, whose errors are last.
    fn require_fields(&self, spec: &Value, errors: &mut ErrorList) {
        if self.0 == AdmissionType::Mutating {
            return;
        }
        let at = Path::new("spec");
        for name in ["policyName", "validationActions"] {
            if spec.text(name).is_empty() && spec.items(name).is_empty() {
                errors.push(Error::required(&at.child(name), ""));
            }
        }
    }
}

// upstream: pkg/apis/admissionregistration/validation/validation.go validateValidationActions
fn validate_validation_actions(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let actions = || spec.texts("validationActions");
    let repeated = field_checks::duplicate_flags(actions());
    for (index, action) in actions().enumerate() {
        let field_path = at.index(index);
        if !ACTIONS.contains(&action) {
            errors.push(Error::not_supported(&field_path, action, ACTIONS));
        }
        if repeated[index] {
            errors.push(Error::duplicate(&field_path, action));
        }
    }
    if ["Deny", "Warn"]
        .iter()
        .all(|one| actions().any(|action| action == *one))
    {
        errors.push(Error::invalid(at, spec.at("validationActions"), DENY_AND_WARN));
    }
}

/// The paramRef in a table; the namespace shows only if it is set.
// upstream: pkg/printers/internalversion/printers.go printValidatingAdmissionPolicyBinding
fn format_param_ref(reference: &Value) -> String {
    match (reference.text("namespace"), reference.text("name")) {
        (_, "") if reference.has("selector") => go_selector(reference.at("selector")),
        (_, "") => "<unset>".to_owned(),
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// A selector as Go prints the struct.
fn go_selector(selector: &Value) -> String {
    let labels = selector.entries("matchLabels").iter();
    let labels: Vec<_> = labels
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let expressions = selector.items("matchExpressions").iter();
    let expressions: Vec<_> = expressions
        .map(|expression| {
            let values: Vec<_> = expression.texts("values").collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                expression.text("key"),
                expression.text("operator"),
                values.join(" ")
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.concat(),
        expressions.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(admission_type: AdmissionType, spec: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        let binding = AdmissionPolicyBinding(admission_type);
        binding.validate_binding_spec(spec, &mut errors);
        binding.require_fields(spec, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn requires_policy_name_and_actions() {
        let spec = json!({"policyName": "p", "validationActions": ["Deny", "Audit"]});
        assert_eq!(messages(AdmissionType::Validating, &spec), [] as [&str; 0]);
        assert_eq!(
            messages(AdmissionType::Validating, &json!({"paramRef": {}})),
            [
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.paramRef.parameterNotFoundAction: Required value",
                "spec.policyName: Required value",
                "spec.validationActions: Required value",
            ]
        );
        let both = json!({"policyName": "p", "validationActions": ["Deny", "Warn", "Deny"]});
        assert_eq!(messages(AdmissionType::Validating, &both).len(), 2);
        assert_eq!(
            messages(AdmissionType::Mutating, &json!({})),
            ["spec.policyName: Required value"]
        );
    }

    #[test]
    fn row_shows_the_param_ref() {
        assert_eq!(format_param_ref(&Value::Null), "<unset>");
        assert_eq!(format_param_ref(&json!({"name": "a"})), "*/a");
        assert_eq!(format_param_ref(&json!({"name": "a", "namespace": "n"})), "n/a");
        assert_eq!(
            format_param_ref(&json!({"selector": {"matchLabels": {"k": "v"}}})),
            "&LabelSelector{MatchLabels:map[string]string{k: v,},MatchExpressions:[]LabelSelectorRequirement{},}"
        );
    }
}
