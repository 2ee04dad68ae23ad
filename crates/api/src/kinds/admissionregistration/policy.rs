//! ValidatingAdmissionPolicy (KEP-3488) and MutatingAdmissionPolicy (KEP-3962): admission by CEL expressions.

use k3_cel::{DeclType, ObjectDeclType, Type};
use k3_jsonpath::JsonPath;
use serde_json::{Value, json};

use super::{
    AdmissionType,
    expression::{self, ExpressionChecker},
    matching, rule, static_suffix, webhook,
};
use crate::{
    admission::OptionalVariableDeclarations,
    field::{BadValue, Error, Path},
    kinds::{condition, field_checks, go_values, status_meta},
    name,
    strategy::{
        Column, ColumnDescription, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row,
    },
    time::Time,
};

const MAX_AUDIT_ANNOTATIONS: usize = 20;
/// Less than an audit annotation value may have, because an expression that joins strings is shorter than its result.
const MAX_VALUE_EXPRESSION_BYTES: usize = 5 * 1024;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

const PARAM_KIND: Column = Column::text(
    "ParamKind",
    "ParamKind specifies the kind of resources used to parameterize this policy",
);
const VALIDATING_COLUMNS: &[Column] = &[
    Column::name(),
    Column::new(
        "Validations",
        "integer",
        ColumnDescription::text(
            "Validations indicates the number of validation rules defined in this configuration",
        ),
    ),
    PARAM_KIND,
    Column::age(),
];
const MUTATING_COLUMNS: &[Column] = &[
    Column::name(),
    Column::new(
        "Mutations",
        "integer",
        ColumnDescription::text(
            "Mutation indicates the number of mutations rules defined in this configuration",
        ),
    ),
    PARAM_KIND,
    Column::age(),
];

pub(super) struct AdmissionPolicy(pub(super) AdmissionType);

// upstream: pkg/registry/admissionregistration/validatingadmissionpolicy/strategy.go validatingAdmissionPolicyStrategy
impl RestStrategy for AdmissionPolicy {
    // upstream: pkg/apis/admissionregistration/v1/defaults.go SetDefaults_ValidatingAdmissionPolicySpec, SetDefaults_MatchResources
    fn set_defaults(&self, object: &mut Value) {
        let spec = object.ensure_object("spec");
        spec.set_default("failurePolicy", "Fail");
        matching::set_defaults_match_resources(spec, "matchConstraints");
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _at: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        status_meta::reset_object_meta_for_status(new, old);
    }

    // upstream: pkg/apis/admissionregistration/validation/validation.go ValidateValidatingAdmissionPolicy, ValidateMutatingAdmissionPolicy
    fn validate(&self, object: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        self.validate_policy_spec(object, None, errors);
        static_suffix::validate_static_suffix(object, errors);
    }

    // upstream: pkg/apis/admissionregistration/validation/validation.go ValidateValidatingAdmissionPolicyUpdate, ValidateMutatingAdmissionPolicyUpdate
    fn validate_update(&self, new: &Value, old: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        self.validate_policy_spec(new, Some(old), errors);
    }

    // upstream: pkg/apis/admissionregistration/validation/validation.go ValidateValidatingAdmissionPolicyStatusUpdate, validateTypeChecking
    fn validate_status_update(
        &self,
        new: &Value,
        _old: &Value,
        _at: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let at = Path::new("status");
        let status = new.at("status");
        let checking = at.child("typeChecking");
        let field_path = checking.child("expressionWarnings");
        for (index, warning) in status
            .at("typeChecking")
            .items("expressionWarnings")
            .iter()
            .enumerate()
        {
            let field_path = field_path.index(index);
            if warning.text("warning").is_empty() {
                errors.push(Error::required(&field_path.child("warning"), ""));
            }
            let field_path = field_path.child("fieldRef");
            let path = warning.text("fieldRef").trim();
            if path.is_empty() {
                errors.push(Error::required(&field_path, ""));
            } else if let Err(msg) = JsonPath::parse(path) {
                let detail = format!("invalid JSONPath: {msg}");
                errors.push(Error::invalid(&field_path, path, detail));
            }
        }
        condition::validate_conditions(status.items("conditions"), &at.child("conditions"), errors);
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
        match self.0 {
            AdmissionType::Mutating => MUTATING_COLUMNS,
            AdmissionType::Validating => VALIDATING_COLUMNS,
        }
    }

    // upstream: pkg/printers/internalversion/printers.go printValidatingAdmissionPolicy, printMutatingAdmissionPolicy
    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let list = match self.0 {
            AdmissionType::Mutating => "mutations",
            AdmissionType::Validating => "validations",
        };
        let kind = spec.at("paramKind");
        let param_kind = if kind.is_null() {
            "<unset>".to_owned()
        } else {
            format!("{}/{}", kind.text("apiVersion"), kind.text("kind"))
        };
        named_row(object, now, [json!(spec.items(list).len()), json!(param_kind)])
    }
}

impl AdmissionPolicy {
    // upstream: pkg/apis/admissionregistration/validation/validation.go validateValidatingAdmissionPolicySpec, validateMutatingAdmissionPolicySpec
    fn validate_policy_spec(&self, object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
        let spec = object.at("spec");
        let at = Path::new("spec");
        validate_required_enum(spec, "failurePolicy", &webhook::FAILURE_POLICIES, &at, errors);
        if spec.has("paramKind") {
            matching::validate_param_kind(spec.at("paramKind"), &at.child("paramKind"), errors);
        }
        let constraints = at.child("matchConstraints");
        if spec.has("matchConstraints") {
            let resources = spec.at("matchConstraints");
            matching::validate_match_resources(resources, &constraints, errors);
            let rules = resources.items("resourceRules");
            let field_path = constraints.child("resourceRules");
            if rules.is_empty() {
                errors.push(Error::required(&field_path, ""));
            }
            if self.0 == AdmissionType::Mutating {
                rule::validate_mutating_operations(rules, &field_path, errors);
            }
        } else {
            errors.push(Error::required(&constraints, ""));
        }
        let reach = OptionalVariableDeclarations {
            params: spec.has("paramKind"),
            authorizer: true,
        };
        let is_unchanged = |old: &Value, name: &str| spec.at(name) == old.at("spec").at(name);
        let conditions_unchanged =
            |old| is_unchanged(old, "paramKind") && is_unchanged(old, "matchConditions");
        if !old.is_some_and(conditions_unchanged) {
            let field_path = at.child("matchConditions");
            matching::validate_match_conditions(spec.items("matchConditions"), reach, &field_path, errors);
        }
        let declared = validate_variables(spec.items("variables"), reach, &at.child("variables"), errors);
        match self.0 {
            AdmissionType::Validating => {
                // A policy without variables is compiled without declaring the `variables` object.
                let variables = if spec.items("variables").is_empty() {
                    None
                } else {
                    Some(&declared)
                };
                validate_validations(object, &ExpressionContext { reach, variables }, &at, errors);
            }
            AdmissionType::Mutating => {
                let context = ExpressionContext {
                    reach,
                    variables: Some(&declared),
                };
                validate_mutations(spec.items("mutations"), &context, &at.child("mutations"), errors);
                validate_required_enum(
                    spec,
                    "reinvocationPolicy",
                    &webhook::REINVOCATION_POLICIES,
                    &at,
                    errors,
                );
            }
        }
    }
}

/// A required field with one of these values.
fn validate_required_enum(
    spec: &Value,
    field: &str,
    supported: &[&str],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    match spec.text(field) {
        "" if !spec.has(field) => errors.push(Error::required(&at.child(field), "")),
        text if supported.contains(&text) => {}
        text => errors.push(Error::not_supported(&at.child(field), text, supported)),
    }
}

/// What the expressions of a policy are compiled against.
struct ExpressionContext<'k> {
    reach: OptionalVariableDeclarations,
    /// The variables of the policy.
    variables: Option<&'k ObjectDeclType>,
}

impl ExpressionContext<'_> {
    // upstream: pkg/apis/admissionregistration/validation/validation.go createCompiler
    fn checker(
        &self,
        reach: OptionalVariableDeclarations,
        expected_types: &'static [&'static str],
    ) -> ExpressionChecker {
        let checker = ExpressionChecker::new(reach, expected_types);
        match self.variables {
            Some(variables) => checker.with_variables(variables),
            None => checker,
        }
    }
}

/// Validates variables and declares their types.
// upstream: pkg/apis/admissionregistration/validation/validation.go validateVariable
fn validate_variables(
    variables: &[Value],
    reach: OptionalVariableDeclarations,
    at: &Path<'_>,
    errors: &mut ErrorList,
) -> ObjectDeclType {
    let mut declared = ObjectDeclType::new("kubernetes.variables");
    for (index, variable) in variables.iter().enumerate() {
        let field_path = at.index(index);
        let name = variable.text("name");
        if name.trim().is_empty() {
            errors.push(Error::required(
                &field_path.child("name"),
                "name is not specified",
            ));
        } else if !expression::is_cel_identifier(name) {
            let detail = "must be a valid CEL identifier";
            errors.push(Error::invalid(&field_path.child("name"), name, detail));
        }
        let missing = "expression is not specified";
        let checker = ExpressionChecker::new(reach, &[]).with_variables(&declared);
        let ty = checker.validate(
            variable.text("expression"),
            missing,
            &field_path.child("expression"),
            errors,
        );
        // The checker borrows the declarations.
        drop(checker);
        declared = declared.plain(name, DeclType::from(ty.as_ref().unwrap_or(&Type::Dyn)));
    }
    declared
}

// upstream: pkg/apis/admissionregistration/validation/validation.go validateValidatingAdmissionPolicySpec
fn validate_validations(
    object: &Value,
    context: &ExpressionContext<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let spec = object.at("spec");
    let validations = spec.items("validations");
    let annotations = spec.items("auditAnnotations");
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        for name in ["validations", "auditAnnotations"] {
            errors.push(Error::required(&at.child(name), detail));
        }
        return;
    }
    let field_path = at.child("validations");
    for (index, validation) in validations.iter().enumerate() {
        validate_validation(validation, context, &field_path.index(index), errors);
    }
    let field_path = at.child("auditAnnotations");
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        let printed = annotations
            .iter()
            .map(|one| go_values::internal_json("admissionregistration", "AuditAnnotation", one));
        let printed: Vec<_> = printed.collect();
        let list = BadValue::Printed(format!("[{}]", printed.join(",")));
        let detail = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        errors.push(Error::invalid(&field_path, list, detail));
    }
    let repeated = field_checks::duplicate_flags(annotations.iter().map(|annotation| annotation.text("key")));
    for (index, annotation) in annotations.iter().enumerate() {
        let field_path = field_path.index(index);
        let key = annotation.text("key");
        validate_audit_annotation(
            annotation,
            object.at("metadata").text("name"),
            context,
            &field_path,
            errors,
        );
        if repeated[index] {
            errors.push(Error::duplicate(&field_path.child("key"), key));
        }
    }
}

// upstream: pkg/apis/admissionregistration/validation/validation.go validateValidation
fn validate_validation(
    validation: &Value,
    context: &ExpressionContext<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let checker = context.checker(context.reach, &["bool"]);
    let field_path = at.child("expression");
    checker.validate(
        validation.text("expression"),
        "expression is not specified",
        &field_path,
        errors,
    );
    for name in ["messageExpression", "message"] {
        let text = validation.text(name);
        if !text.is_empty() && text.trim().is_empty() {
            errors.push(Error::invalid(
                &at.child(name),
                text,
                "must be non-empty if specified",
            ));
        } else if name == "messageExpression" && !text.is_empty() {
            let reach = OptionalVariableDeclarations {
                authorizer: false,
                ..context.reach
            };
            context
                .checker(reach, &["string"])
                .validate(text, "", &at.child(name), errors);
        } else if expression::has_newlines(text.trim()) {
            errors.push(Error::invalid(
                &at.child(name),
                text,
                "must not contain line breaks",
            ));
        }
    }
    if validation.has("reason") && !REASONS.contains(&validation.text("reason")) {
        let field_path = at.child("reason");
        errors.push(Error::not_supported(
            &field_path,
            validation.text("reason"),
            REASONS,
        ));
    }
}

// upstream: pkg/apis/admissionregistration/validation/validation.go validateAuditAnnotation
fn validate_audit_annotation(
    annotation: &Value,
    policy: &str,
    context: &ExpressionContext<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let field_path = at.child("key");
    let key = annotation.text("key");
    if policy.is_empty() {
        errors.push(Error::invalid(
            &field_path,
            key,
            "requires metadata.name be non-empty",
        ));
    } else {
        let full = format!("{policy}/{key}");
        field_checks::push_invalid(&full, name::validate_label_key(&full), &field_path, errors);
    }
    let field_path = at.child("valueExpression");
    let text = annotation.text("valueExpression");
    if text.trim().len() > MAX_VALUE_EXPRESSION_BYTES {
        let detail = format!("must not exceed {MAX_VALUE_EXPRESSION_BYTES} bytes in length");
        errors.push(Error::required(&field_path, detail));
    } else {
        let checker = context.checker(context.reach, &["string", "null_type"]);
        checker.validate_trimmed(
            text.trim(),
            text,
            "valueExpression is not specified",
            &field_path,
            errors,
        );
    }
}

// upstream: pkg/apis/admissionregistration/validation/validation.go validateMutation
fn validate_mutations(
    mutations: &[Value],
    context: &ExpressionContext<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if mutations.is_empty() {
        errors.push(Error::required(at, "mutations must contain at least one item"));
    }
    for (index, mutation) in mutations.iter().enumerate() {
        let field_path = at.index(index);
        let (kind, field, other, expected_types): (_, _, _, &[&str]) = match mutation.text("patchType") {
            "" => {
                errors.push(Error::required(&field_path.child("patchType"), ""));
                continue;
            }
            kind @ "JSONPatch" => (kind, "jsonPatch", "applyConfiguration", &["list(JSONPatch)"]),
            kind @ "ApplyConfiguration" => (kind, "applyConfiguration", "jsonPatch", &["Object"]),
            unknown => {
                let supported = ["ApplyConfiguration", "JSONPatch"];
                errors.push(Error::not_supported(
                    &field_path.child("patchType"),
                    unknown,
                    supported,
                ));
                continue;
            }
        };
        let expression_path = field_path.child(field);
        if mutation.has(field) {
            let text = mutation.at(field).text("expression").trim();
            let checker = context.checker(context.reach, expected_types).with_patch_types();
            checker.validate(text, "", &expression_path.child("expression"), errors);
        } else {
            let detail = format!("must be specified when patchType is {kind}");
            errors.push(Error::required(&expression_path, detail));
        }
        if mutation.has(other) {
            let detail = format!("must not be specified when patchType is {kind}");
            errors.push(Error::invalid(
                &field_path.child(other),
                format!("{{{other}}}"),
                detail,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(admission_type: AdmissionType, spec: &Value) -> Vec<String> {
        let mut object = json!({"metadata": {"name": "p.b"}, "spec": spec});
        let policy = AdmissionPolicy(admission_type);
        policy.set_defaults(&mut object);
        let mut errors = ErrorList::new();
        policy.validate_policy_spec(&object, None, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    /// A spec that matches pods, with more fields.
    fn spec(more: &Value) -> Value {
        let rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
        let mut spec = json!({"matchConstraints": {"resourceRules": [rule]}});
        for (name, value) in more.as_object().unwrap() {
            spec.set(name, value.clone());
        }
        spec
    }

    #[test]
    fn requires_match_constraints_and_validations() {
        let good = spec(
            &json!({"validations": [{"expression": "true"}], "variables": [{"name": "a", "expression": "1"}]}),
        );
        assert_eq!(messages(AdmissionType::Validating, &good), [] as [&str; 0]);
        assert_eq!(
            messages(AdmissionType::Validating, &json!({})),
            [
                "spec.matchConstraints: Required value",
                "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ]
        );
        let bad = spec(&json!({
            "paramKind": {"apiVersion": "a/b/c", "kind": "1"},
            "variables": [{"name": "for", "expression": " "}],
            "validations": [{"expression": "", "message": "a\nb", "reason": "Why"}],
            "auditAnnotations": [{"key": "k", "valueExpression": "'x'"}, {"key": "k"}],
        }));
        let messages: Vec<_> = messages(AdmissionType::Validating, &bad)
            .iter()
            .map(|text| text.split(": ").take(2).collect::<Vec<_>>().join(": "))
            .collect();
        assert_eq!(
            messages,
            [
                "spec.paramKind.apiVersion: Invalid value",
                "spec.paramKind.kind: Invalid value",
                "spec.variables[0].name: Invalid value",
                "spec.variables[0].expression: Required value",
                "spec.validations[0].expression: Required value",
                "spec.validations[0].message: Invalid value",
                "spec.validations[0].reason: Unsupported value",
                "spec.auditAnnotations[1].valueExpression: Required value",
                "spec.auditAnnotations[1].key: Duplicate value",
            ]
        );
    }

    #[test]
    fn rejects_expressions_of_wrong_scope_or_type() {
        let object = spec(&json!({
            "variables": [
                {"name": "a", "expression": "object.spec.replicas"},
                {"name": "b", "expression": "variables.a > 1 && authorizer.path('/x').check('get').allowed()"},
                {"name": "c", "expression": "variables.d"},
            ],
            "matchConditions": [{"name": "m", "expression": "variables.a"}],
            "validations": [
                {"expression": "variables.b && request.operation == 'CREATE'", "messageExpression": "string(authorizer)"},
                {"expression": "params.x", "messageExpression": "1"},
            ],
            "auditAnnotations": [{"key": "k", "valueExpression": " 1 "}, {"key": "l", "valueExpression": "null"}],
        }));
        let messages: Vec<_> = messages(AdmissionType::Validating, &object)
            .iter()
            .map(|text| text.split('\n').next().unwrap().to_owned())
            .collect();
        let undeclared = |name: &str| format!("undeclared reference to '{name}' (in container '')");
        assert_eq!(
            messages,
            [
                format!(
                    "spec.matchConditions[0].expression: Invalid value: \"variables.a\": compilation failed: ERROR: <input>:1:1: {}",
                    undeclared("variables")
                ),
                "spec.variables[2].expression: Invalid value: \"variables.d\": compilation failed: ERROR: <input>:1:10: \
                 undefined field 'd'"
                    .to_owned(),
                format!(
                    "spec.validations[0].messageExpression: Invalid value: \"string(authorizer)\": compilation failed: \
                     ERROR: <input>:1:8: {}",
                    undeclared("authorizer")
                ),
                format!(
                    "spec.validations[1].expression: Invalid value: \"params.x\": compilation failed: ERROR: <input>:1:1: {}",
                    undeclared("params")
                ),
                "spec.validations[1].messageExpression: Invalid value: \"1\": must evaluate to string but got int".to_owned(),
                "spec.auditAnnotations[0].valueExpression: Invalid value: \" 1 \": must evaluate to one of [string null_type] \
                 but got int"
                    .to_owned(),
            ]
        );
    }

    #[test]
    fn rejects_mutations_of_wrong_type() {
        let object = spec(&json!({
            "reinvocationPolicy": "Never",
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{spec: Object.spec{a: 1}}"}},
                {"patchType": "JSONPatch", "jsonPatch": {
                    "expression": "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c'), value: 1}]",
                }},
                {"patchType": "JSONPatch", "jsonPatch": {"expression": "[1]"}},
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "{'a': 1}"}},
            ],
        }));
        assert_eq!(
            messages(AdmissionType::Mutating, &object),
            [
                "spec.mutations[2].jsonPatch.expression: Invalid value: \"[1]\": must evaluate to list(JSONPatch) but got \
                 list(int)",
                "spec.mutations[3].applyConfiguration.expression: Invalid value: \"{'a': 1}\": must evaluate to Object but got \
                 map(string, int)",
            ]
        );
    }

    #[test]
    fn rejects_mutations_with_the_field_of_another_type() {
        let spec = spec(&json!({
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "applyConfiguration": {"expression": "x"}}, {}],
        }));
        assert_eq!(
            messages(AdmissionType::Mutating, &spec),
            [
                "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
                "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when \
                 patchType is JSONPatch",
                "spec.mutations[1].patchType: Required value",
            ]
        );
    }
}
