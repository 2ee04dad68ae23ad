//! IngressClass: the controller that serves an Ingress.

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name,
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct IngressClass;

const MAX_CONTROLLER_BYTES: usize = 250;
const DEFAULT_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text(
        "Controller",
        "Controller that is responsible for handling this class",
    ),
    Column::text(
        "Parameters",
        "A reference to a resource with additional parameters",
    ),
    Column::age(),
];

// upstream: pkg/registry/networking/ingressclass/strategy.go ingressClassStrategy
impl RestStrategy for IngressClass {
    // upstream: pkg/apis/networking/v1/defaults.go SetDefaults_IngressClass
    fn set_defaults(&self, object: &mut Value) {
        let parameters = object.at_mut("spec").and_then(|spec| spec.at_mut("parameters"));
        if let Some(parameters) = parameters {
            parameters.set_default("scope", "Cluster");
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    // upstream: pkg/apis/networking/validation/validation.go ValidateIngressClass
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let at = Path::new("spec");
        let spec = object.at("spec");
        let controller = spec.text("controller");
        let field_path = at.child("controller");
        if controller.len() > MAX_CONTROLLER_BYTES {
            errors.push(Error::too_long(&field_path, MAX_CONTROLLER_BYTES));
        }
        errors.extend(name::validate_domain_prefixed_path(&field_path, controller));
        if spec.has("parameters") {
            validate_parameters_reference(spec.at("parameters"), &at.child("parameters"), errors);
        }
    }

    // upstream: pkg/apis/networking/validation/validation.go ValidateIngressClassUpdate
    fn validate_update(&self, new: &Value, old: &Value, at: &StrategyContext<'_>, errors: &mut ErrorList) {
        let after = new.at("spec").text("controller");
        let before = old.at("spec").text("controller");
        if after != before {
            let spec = Path::new("spec");
            errors.push(Error::invalid(
                &spec.child("controller"),
                after,
                field_checks::IMMUTABLE,
            ));
        }
        self.validate(new, at, errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printIngressClass
    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let parameters = spec.at("parameters");
        let reference = match (parameters.is_null(), parameters.at("apiGroup").as_str()) {
            (true, _) => "<none>".to_owned(),
            (false, None) => format!("{}/{}", parameters.text("kind"), parameters.text("name")),
            (false, Some(group)) => {
                format!("{}.{group}/{}", parameters.text("kind"), parameters.text("name"))
            }
        };
        let mut row = named_row(object, now, [json!(spec.text("controller")), json!(reference)]);
        let metadata = object.at("metadata");
        if metadata.at("annotations").text(DEFAULT_ANNOTATION) == "true" {
            row.cells[0] = json!(format!("{} (default)", metadata.text("name")));
        }
        row
    }
}

// upstream: pkg/apis/networking/validation/validation.go validateIngressClassParametersReference
fn validate_parameters_reference(parameters: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(group) = parameters.at("apiGroup").as_str() {
        field_checks::push_invalid(
            group,
            name::validate_dns1123_subdomain(group),
            &at.child("apiGroup"),
            errors,
        );
    }
    for field in ["kind", "name"] {
        field_checks::validate_path_segment_name(parameters, field, at, errors);
    }
    let field_path = at.child("namespace");
    let namespace = parameters.at("namespace").as_str();
    match (parameters.at("scope").as_str(), namespace) {
        (None, _) => errors.push(Error::required(&at.child("scope"), "")),
        (Some("Namespace"), None) => errors.push(Error::required(
            &field_path,
            "`parameters.scope` is set to 'Namespace'",
        )),
        (Some("Namespace"), Some(namespace)) => {
            field_checks::push_invalid(
                namespace,
                name::validate_dns1123_label(namespace),
                &field_path,
                errors,
            );
        }
        (Some("Cluster"), Some(_)) => {
            errors.push(Error::forbidden(
                &field_path,
                "`parameters.scope` is set to 'Cluster'",
            ));
        }
        (Some("Cluster"), None) => {}
        (Some(other), _) => errors.push(Error::not_supported(
            &at.child("scope"),
            other,
            ["Cluster", "Namespace"],
        )),
    }
    // Declarative validation runs after the hand-written one, so its errors are last.
    field_checks::require_fields(parameters, &["kind", "name"], at, errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validate_parameters(parameters: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate_parameters_reference(parameters, &Path::new("p"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults_parameters_scope_to_cluster() {
        let mut object = json!({"spec": {"parameters": {"kind": "K", "name": "n"}}});
        IngressClass.set_defaults(&mut object);
        assert_eq!(object["spec"]["parameters"]["scope"], "Cluster");
        assert_eq!(validate_parameters(&object["spec"]["parameters"]), [""; 0]);
    }

    #[test]
    fn validates_namespace_by_scope() {
        assert_eq!(
            validate_parameters(&json!({"scope": "Namespace", "kind": "a/b"})),
            [
                "p.kind: Invalid value: \"a/b\": may not contain '/'",
                "p.namespace: Required value: `parameters.scope` is set to 'Namespace'",
                "p.name: Required value",
            ]
        );
        assert_eq!(
            validate_parameters(&json!({"scope": "Cluster", "kind": "K", "name": "n", "namespace": "x"})),
            ["p.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"]
        );
    }

    #[test]
    fn row_marks_the_default_class() {
        let object = json!({
            "metadata": {"name": "x", "annotations": {DEFAULT_ANNOTATION: "true"}},
            "spec": {"controller": "a.io/c", "parameters": {"apiGroup": "g.io", "kind": "K", "name": "n"}},
        });
        let row = IngressClass.row(&object, Time::from_unix(0, 0));
        assert_eq!(
            row.cells[..3],
            [json!("x (default)"), json!("a.io/c"), json!("K.g.io/n")]
        );
    }
}
