//! SubjectAccessReview, LocalSubjectAccessReview and SelfSubjectAccessReview: asks whether a user may perform an action.

use serde_json::Value;

use crate::{
    field::{BadValue, Error, Path},
    go,
    selector::label::{self, InvalidValues, UnknownOperators},
    strategy::{ErrorList, RestStrategy, StrategyContext, Tree},
};

/// The kinds of access reviews.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Review {
    /// SubjectAccessReview: any user.
    Any,
    /// LocalSubjectAccessReview: any user, in one namespace.
    Local,
    /// SelfSubjectAccessReview: the user of the request.
    Own,
}

/// Fields of `ObjectMeta` in the order of the Go struct.
const METADATA: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Fields of `ManagedFieldsEntry` in the order of the Go struct.
const MANAGED: [&str; 7] = [
    "manager",
    "operation",
    "apiVersion",
    "time",
    "fieldsType",
    "fieldsV1",
    "subresource",
];

impl RestStrategy for Review {
    // upstream: pkg/apis/authorization/validation/validation.go ValidateSubjectAccessReview, ValidateSelfSubjectAccessReview, ValidateLocalSubjectAccessReview
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        // upstream: pkg/apis/authorization/validation/validation.go ValidateSubjectAccessReviewSpec, ValidateSelfSubjectAccessReviewSpec
        let at = Path::new("spec");
        let spec = object.at("spec");
        let resource = spec.at("resourceAttributes");
        let other = spec.at("nonResourceAttributes");
        if resource.is_null() == other.is_null() {
            errors.push(Error::invalid(
                &at,
                attributes_value(other),
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            ));
        }
        if *self != Review::Own && spec.text("user").is_empty() && spec.items("groups").is_empty() {
            errors.push(Error::invalid(
                &at.child("user"),
                "",
                "at least one of user or group must be specified",
            ));
        }
        if !resource.is_null() {
            let at = at.child("resourceAttributes");
            validate_selector(resource, "fieldSelector", &at, errors);
            validate_selector(resource, "labelSelector", &at, errors);
        }
        self.validate_metadata(object.at("metadata"), errors);
        if *self == Review::Local {
            let namespace = object.at("metadata").text("namespace");
            let resource_namespace = resource.text("namespace");
            if !resource.is_null() && resource_namespace != namespace {
                let at = Path::new("spec.resourceAttributes.namespace");
                errors.push(Error::invalid(
                    &at,
                    resource_namespace,
                    "must match metadata.namespace",
                ));
            }
            if !other.is_null() {
                let at = Path::new("spec.nonResourceAttributes");
                let value = attributes_value(other);
                errors.push(Error::invalid(&at, value, "disallowed on this kind of request"));
            }
        }
    }
}

// --- Review ---

impl Review {
    fn validate_metadata(self, metadata: &Value, errors: &mut ErrorList) {
        let allowed = |name: &str| name == "managedFields" || (self == Review::Local && name == "namespace");
        let Some(fields) = metadata.as_object() else {
            return;
        };
        if fields
            .iter()
            .any(|(name, value)| !allowed(name) && !value.is_null())
        {
            let detail = match self {
                Review::Local => "must be empty except for namespace",
                Review::Any | Review::Own => "must be empty",
            };
            let at = Path::new("metadata");
            errors.push(Error::invalid(
                &at,
                BadValue::Printed(metadata_json(metadata)),
                detail,
            ));
        }
    }
}

// upstream: pkg/apis/authorization/validation/validation.go validateResourceAttributes, validateFieldSelectorAttributes, validateLabelSelectorAttributes
fn validate_selector(attributes: &Value, field: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let selector = attributes.at(field);
    if selector.is_null() {
        return;
    }
    let at = at.child(field);
    let raw = selector.text("rawSelector");
    let requirements = selector.items("requirements");
    match (raw.is_empty(), requirements.is_empty()) {
        (false, false) => errors.push(Error::invalid(
            &at.child("rawSelector"),
            raw,
            "may not specified at the same time as requirements",
        )),
        (true, true) => errors.push(Error::required(
            &at.child("requirements"),
            format!("when {at} is specified, requirements or rawSelector is required"),
        )),
        _ => {}
    }
    let list = at.child("requirements");
    for (index, requirement) in requirements.iter().enumerate() {
        let at = list.index(index);
        if field == "labelSelector" {
            errors.extend(label::validate_requirement(
                &at,
                requirement,
                InvalidValues::Refused,
                UnknownOperators::Taken,
            ));
        } else {
            validate_field_requirement(requirement, &at, errors);
        }
    }
}

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go ValidateFieldSelectorRequirement
fn validate_field_requirement(requirement: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if requirement.text("key").is_empty() {
        errors.push(Error::required(&at.child("key"), "must be specified"));
    }
    let none = requirement.items("values").is_empty();
    match requirement.text("operator") {
        "In" | "NotIn" if none => errors.push(Error::required(
            &at.child("values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !none => errors.push(Error::forbidden(
            &at.child("values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        _ => {}
    }
}

/// NonResourceAttributes as the value of an error: the internal type has no JSON tags.
fn attributes_value(attributes: &Value) -> BadValue {
    if attributes.is_null() {
        return BadValue::Json(Value::Null);
    }
    let field = |name: &str| go::json_string(attributes.text(name));
    BadValue::Printed(format!(
        "{{\"Path\":{},\"Verb\":{}}}",
        field("path"),
        field("verb")
    ))
}

fn metadata_json(metadata: &Value) -> String {
    fields_json(metadata, &METADATA, |name, value| match (name, value) {
        ("managedFields", Value::Array(entries)) => {
            let entries: Vec<_> = entries
                .iter()
                .map(|entry| fields_json(entry, &MANAGED, |_, value| go::json(value)))
                .collect();
            format!("[{}]", entries.join(","))
        }
        _ => go::json(value),
    })
}

fn fields_json(object: &Value, order: &[&str], print: impl Fn(&str, &Value) -> String) -> String {
    let fields: Vec<_> = order
        .iter()
        .filter(|name| object.has(name))
        .map(|name| format!("\"{name}\":{}", print(name, object.at(name))))
        .collect();
    format!("{{{}}}", fields.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{kinds::builtin, strategy::User, time::Time};

    fn errors(review: Review, object: &Value) -> Vec<String> {
        let at = StrategyContext {
            kind: &builtin().all()[0],
            now: Time::from_unix(0, 0),
            user: &User::default(),
        };
        let mut errors = ErrorList::new();
        review.validate(object, &at, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn requires_attributes_and_a_subject() {
        let nothing = json!({"spec": {}});
        let attributes = "spec: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
        assert_eq!(errors(Review::Own, &nothing), [attributes]);
        assert_eq!(
            errors(Review::Any, &nothing),
            [
                attributes,
                "spec.user: Invalid value: \"\": at least one of user or group must be specified"
            ]
        );
    }

    #[test]
    fn rejects_local_review_of_another_namespace() {
        let object = json!({
            "metadata": {"namespace": "a", "labels": {"b": "c"}, "managedFields": [{"operation": "Update", "manager": "m"}]},
            "spec": {"user": "u", "resourceAttributes": {"namespace": "b"}},
        });
        assert_eq!(
            errors(Review::Local, &object),
            [
                "metadata: Invalid value: {\"namespace\":\"a\",\"labels\":{\"b\":\"c\"},\"managedFields\":[{\"manager\":\"m\",\
                 \"operation\":\"Update\"}]}: must be empty except for namespace",
                "spec.resourceAttributes.namespace: Invalid value: \"b\": must match metadata.namespace",
            ]
        );
    }

    #[test]
    fn requires_a_selector_and_accepts_unknown_operators() {
        let object = |selector: Value| json!({"spec": {"resourceAttributes": {"fieldSelector": selector.clone(), "labelSelector": selector}}});
        let field_path = "spec.resourceAttributes";
        assert_eq!(
            errors(Review::Own, &object(json!({}))),
            ["fieldSelector", "labelSelector"].map(|field| format!(
                "{field_path}.{field}.requirements: Required value: when {field_path}.{field} is specified, requirements or \
                 rawSelector is required"
            ))
        );
        let unknown = json!({"requirements": [{"key": "a", "operator": "X", "values": ["b"]}]});
        assert_eq!(errors(Review::Own, &object(unknown)), [""; 0]);
        let valueless = json!({"requirements": [{"key": "a", "operator": "In"}]});
        assert_eq!(errors(Review::Own, &object(valueless)).len(), 2);
    }
}
