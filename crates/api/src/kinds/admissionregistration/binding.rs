//! Bindings of policies.

use serde_json::{Value, json};

use super::{Sort, matching, reserved, rule};
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name,
    rules::{Circumstances, Column, Errors, Row, Rules, Tree, named_row},
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

/// A binding of a policy of this sort.
pub(super) struct Binding(pub(super) Sort);

impl Rules for Binding {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = object.get_mut("spec") {
            matching::default(spec, "matchResources");
        }
    }

    fn validate(&self, object: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        self.judge(object.at("spec"), errors);
        reserved::refuse(object, errors);
        self.require(object.at("spec"), errors);
    }

    fn validate_update(&self, new: &Value, _old: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        self.judge(new.at("spec"), errors);
        self.require(new.at("spec"), errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        reserved::warn(new, old)
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
        let spec = object.at("spec");
        let cells = [
            json!(spec.text("policyName")),
            json!(parameters(spec.at("paramRef"))),
        ];
        named_row(object, now, cells)
    }
}

impl Binding {
    fn judge(&self, spec: &Value, errors: &mut Errors) {
        let at = Path::new("spec");
        let policy = spec.text("policyName");
        let field_path = at.child("policyName");
        if !policy.is_empty() {
            field_checks::push_invalid(policy, name::dns1123_subdomain(policy), &field_path, errors);
        } else if self.0 == Sort::Mutating {
            errors.push(Error::required(&field_path, ""));
        }
        matching::param_ref(spec.at("paramRef"), &at.child("paramRef"), errors);
        let resources = spec.at("matchResources");
        let field_path = at.child("matchResources");
        if !resources.is_null() {
            matching::resources(resources, &field_path, errors);
        }
        match self.0 {
            Sort::Mutating => {
                let rules = resources.items("resourceRules");
                rule::validate_mutating(rules, &field_path.child("resourceRules"), errors);
            }
            Sort::Validating => actions(spec, &at.child("validationActions"), errors),
        }
    }

    /// What must be given, told after all else.
    fn require(&self, spec: &Value, errors: &mut Errors) {
        if self.0 == Sort::Mutating {
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

fn actions(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
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

/// The parameters in a table: which namespace is meant can only be told if it is named.
fn parameters(reference: &Value) -> String {
    match (reference.text("namespace"), reference.text("name")) {
        (_, "") if reference.has("selector") => printed(reference.at("selector")),
        (_, "") => "<unset>".to_owned(),
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// A selector as the Go library prints it.
fn printed(selector: &Value) -> String {
    let labels = selector.entries("matchLabels").iter();
    let labels: Vec<_> = labels
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let expressions = selector.items("matchExpressions").iter();
    let expressions: Vec<_> = expressions
        .map(|one| {
            let values: Vec<_> = one.texts("values").collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                one.text("key"),
                one.text("operator"),
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

    fn messages(sort: Sort, spec: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        let binding = Binding(sort);
        binding.judge(spec, &mut errors);
        binding.require(spec, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_binding_says_which_policy_and_what_to_do() {
        let spec = json!({"policyName": "p", "validationActions": ["Deny", "Audit"]});
        assert_eq!(messages(Sort::Validating, &spec), [] as [&str; 0]);
        assert_eq!(
            messages(Sort::Validating, &json!({"paramRef": {}})),
            [
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.paramRef.parameterNotFoundAction: Required value",
                "spec.policyName: Required value",
                "spec.validationActions: Required value",
            ]
        );
        let both = json!({"policyName": "p", "validationActions": ["Deny", "Warn", "Deny"]});
        assert_eq!(messages(Sort::Validating, &both).len(), 2);
        assert_eq!(
            messages(Sort::Mutating, &json!({})),
            ["spec.policyName: Required value"]
        );
    }

    #[test]
    fn a_table_shows_where_the_parameters_are() {
        assert_eq!(parameters(&Value::Null), "<unset>");
        assert_eq!(parameters(&json!({"name": "a"})), "*/a");
        assert_eq!(parameters(&json!({"name": "a", "namespace": "n"})), "n/a");
        assert_eq!(
            parameters(&json!({"selector": {"matchLabels": {"k": "v"}}})),
            "&LabelSelector{MatchLabels:map[string]string{k: v,},MatchExpressions:[]LabelSelectorRequirement{},}"
        );
    }
}
