//! Bindings of policies.

use serde_json::{Value, json};

use super::{Sort, matching, reserved, rule};
use crate::{
    field::{Error, Path},
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
        let place = at.child("policyName");
        if !policy.is_empty() {
            errors.extend(
                name::dns1123_subdomain(policy)
                    .into_iter()
                    .map(|fault| Error::invalid(&place, policy, fault)),
            );
        } else if self.0 == Sort::Mutating {
            errors.push(Error::required(&place, ""));
        }
        matching::param_ref(spec.at("paramRef"), &at.child("paramRef"), errors);
        let resources = spec.at("matchResources");
        let place = at.child("matchResources");
        if !resources.is_null() {
            matching::resources(resources, &place, errors);
        }
        match self.0 {
            Sort::Mutating => {
                let rules = resources.items("resourceRules");
                rule::validate_mutating(rules, &place.child("resourceRules"), errors);
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
    for (index, action) in actions().enumerate() {
        let place = at.index(index);
        if !ACTIONS.contains(&action) {
            errors.push(Error::not_supported(&place, action, ACTIONS));
        }
        if actions().take(index).any(|other| other == action) {
            errors.push(Error::duplicate(&place, action));
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
    let labels: String = selector
        .entries("matchLabels")
        .iter()
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let expressions: String = selector
        .items("matchExpressions")
        .iter()
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
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
