//! Policies: expressions that judge or change objects.

use k3_cel::{Decl, ObjectDecl, Type};
use serde_json::{Value, json};

use super::{
    Sort,
    expression::{self, Wanted},
    json_path, matching, reserved, rule, webhook,
};
use crate::{
    admission::Reach,
    field::{Error, Path, Shown},
    kinds::{condition, field_checks, go_values, status_meta},
    name,
    rules::{Circumstances, Column, Description, Errors, Row, Rules, Tree, TreeMut, named_row},
    time::Time,
};

const MAX_ANNOTATIONS: usize = 20;
/// Less than an annotation may have, because an expression that joins texts is shorter than what it gives.
const MAX_ANNOTATION: usize = 5 * 1024;
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
        Description::text(
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
        Description::text("Mutation indicates the number of mutations rules defined in this configuration"),
    ),
    PARAM_KIND,
    Column::age(),
];

/// A policy of this sort.
pub(super) struct Policy(pub(super) Sort);

impl Rules for Policy {
    fn default(&self, object: &mut Value) {
        let spec = object.make("spec");
        spec.fill("failurePolicy", "Fail");
        matching::default(spec, "matchConstraints");
    }

    fn prepare_status(&self, new: &mut Value, old: &Value, _at: &Circumstances<'_>) {
        new.copy_from("spec", old);
        status_meta::reset_object_meta_for_status(new, old);
    }

    fn validate(&self, object: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        self.judge(object, true, errors);
        reserved::refuse(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        let same = |name: &str| new.at("spec").at(name) == old.at("spec").at(name);
        self.judge(new, !(same("paramKind") && same("matchConditions")), errors);
    }

    fn validate_status(&self, new: &Value, _old: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
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
            } else if let Err(msg) = json_path::judge(path) {
                let detail = format!("invalid JSONPath: {msg}");
                errors.push(Error::invalid(&field_path, path, detail));
            }
        }
        condition::validate_conditions(status.items("conditions"), &at.child("conditions"), errors);
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
        match self.0 {
            Sort::Mutating => MUTATING_COLUMNS,
            Sort::Validating => VALIDATING_COLUMNS,
        }
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let list = match self.0 {
            Sort::Mutating => "mutations",
            Sort::Validating => "validations",
        };
        let kind = spec.at("paramKind");
        let shown = if kind.is_null() {
            "<unset>".to_owned()
        } else {
            format!("{}/{}", kind.text("apiVersion"), kind.text("kind"))
        };
        named_row(object, now, [json!(spec.items(list).len()), json!(shown)])
    }
}

impl Policy {
    fn judge(&self, object: &Value, conditions: bool, errors: &mut Errors) {
        let spec = object.at("spec");
        let at = Path::new("spec");
        one_of(spec, "failurePolicy", &webhook::FAILURE_POLICIES, &at, errors);
        if spec.has("paramKind") {
            matching::param_kind(spec.at("paramKind"), &at.child("paramKind"), errors);
        }
        let constraints = at.child("matchConstraints");
        if spec.has("matchConstraints") {
            let resources = spec.at("matchConstraints");
            matching::resources(resources, &constraints, errors);
            let rules = resources.items("resourceRules");
            let field_path = constraints.child("resourceRules");
            if rules.is_empty() {
                errors.push(Error::required(&field_path, ""));
            }
            if self.0 == Sort::Mutating {
                rule::validate_mutating(rules, &field_path, errors);
            }
        } else {
            errors.push(Error::required(&constraints, ""));
        }
        if conditions {
            let field_path = at.child("matchConditions");
            matching::conditions(
                spec.items("matchConditions"),
                spec.has("paramKind"),
                &field_path,
                errors,
            );
        }
        let reach = Reach {
            params: spec.has("paramKind"),
            authorizer: true,
        };
        let known = variables(spec.items("variables"), reach, &at.child("variables"), errors);
        match self.0 {
            Sort::Validating => {
                // Without variables of its own a policy does not know what they are.
                let known = if spec.items("variables").is_empty() {
                    None
                } else {
                    Some(&known)
                };
                validations(object, &Asked { reach, known }, &at, errors);
            }
            Sort::Mutating => {
                let asked = Asked {
                    reach,
                    known: Some(&known),
                };
                mutations(spec.items("mutations"), &asked, &at.child("mutations"), errors);
                one_of(
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

/// A field that must be there and one of these.
fn one_of(spec: &Value, field: &str, supported: &[&str], at: &Path<'_>, errors: &mut Errors) {
    match spec.text(field) {
        "" if !spec.has(field) => errors.push(Error::required(&at.child(field), "")),
        text if supported.contains(&text) => {}
        text => errors.push(Error::not_supported(&at.child(field), text, supported)),
    }
}

/// What the expressions of a policy may speak of.
struct Asked<'k> {
    reach: Reach,
    /// Its own variables.
    known: Option<&'k ObjectDecl>,
}

impl Asked<'_> {
    fn wanted(&self, reach: Reach, gives: &'static [&'static str]) -> Wanted {
        let wanted = Wanted::new(reach, gives);
        match self.known {
            Some(known) => wanted.with_variables(known),
            None => wanted,
        }
    }
}

/// What is wrong with variables, and what they are.
fn variables(variables: &[Value], reach: Reach, at: &Path<'_>, errors: &mut Errors) -> ObjectDecl {
    let mut known = ObjectDecl::new("kubernetes.variables");
    for (index, variable) in variables.iter().enumerate() {
        let field_path = at.index(index);
        let name = variable.text("name");
        if name.trim().is_empty() {
            errors.push(Error::required(
                &field_path.child("name"),
                "name is not specified",
            ));
        } else if !expression::is_identifier(name) {
            let detail = "must be a valid CEL identifier";
            errors.push(Error::invalid(&field_path.child("name"), name, detail));
        }
        let missing = "expression is not specified";
        let wanted = Wanted::new(reach, &[]).with_variables(&known);
        let ty = wanted.validate(
            variable.text("expression"),
            missing,
            &field_path.child("expression"),
            errors,
        );
        // It shares what is known so far.
        drop(wanted);
        known = known.plain(name, Decl::from(ty.as_ref().unwrap_or(&Type::Dyn)));
    }
    known
}

fn validations(object: &Value, asked: &Asked<'_>, at: &Path<'_>, errors: &mut Errors) {
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
        judge_validation(validation, asked, &field_path.index(index), errors);
    }
    let field_path = at.child("auditAnnotations");
    if annotations.len() > MAX_ANNOTATIONS {
        let printed = annotations
            .iter()
            .map(|one| go_values::internal_json("admissionregistration", "AuditAnnotation", one));
        let printed: Vec<_> = printed.collect();
        let shown = Shown::Printed(format!("[{}]", printed.join(",")));
        let detail = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        errors.push(Error::invalid(&field_path, shown, detail));
    }
    let repeated = field_checks::duplicate_flags(annotations.iter().map(|annotation| annotation.text("key")));
    for (index, annotation) in annotations.iter().enumerate() {
        let field_path = field_path.index(index);
        let key = annotation.text("key");
        judge_annotation(
            annotation,
            object.at("metadata").text("name"),
            asked,
            &field_path,
            errors,
        );
        if repeated[index] {
            errors.push(Error::duplicate(&field_path.child("key"), key));
        }
    }
}

fn judge_validation(validation: &Value, asked: &Asked<'_>, at: &Path<'_>, errors: &mut Errors) {
    let wanted = asked.wanted(asked.reach, &["bool"]);
    let field_path = at.child("expression");
    wanted.validate(
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
            let reach = Reach {
                authorizer: false,
                ..asked.reach
            };
            asked
                .wanted(reach, &["string"])
                .validate(text, "", &at.child(name), errors);
        } else if expression::has_lines(text.trim()) {
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

fn judge_annotation(annotation: &Value, policy: &str, asked: &Asked<'_>, at: &Path<'_>, errors: &mut Errors) {
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
        field_checks::push_invalid(&full, name::label_key(&full), &field_path, errors);
    }
    let field_path = at.child("valueExpression");
    let text = annotation.text("valueExpression");
    if text.trim().len() > MAX_ANNOTATION {
        let detail = format!("must not exceed {MAX_ANNOTATION} bytes in length");
        errors.push(Error::required(&field_path, detail));
    } else {
        let wanted = asked.wanted(asked.reach, &["string", "null_type"]);
        wanted.validate_trimmed(
            text.trim(),
            text,
            "valueExpression is not specified",
            &field_path,
            errors,
        );
    }
}

fn mutations(mutations: &[Value], asked: &Asked<'_>, at: &Path<'_>, errors: &mut Errors) {
    if mutations.is_empty() {
        errors.push(Error::required(at, "mutations must contain at least one item"));
    }
    for (index, mutation) in mutations.iter().enumerate() {
        let field_path = at.index(index);
        let (kind, wanted, other, gives): (_, _, _, &[&str]) = match mutation.text("patchType") {
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
        let wanted_place = field_path.child(wanted);
        if mutation.has(wanted) {
            let text = mutation.at(wanted).text("expression").trim();
            let wanted = asked.wanted(asked.reach, gives).with_patch_types();
            wanted.validate(text, "", &wanted_place.child("expression"), errors);
        } else {
            let detail = format!("must be specified when patchType is {kind}");
            errors.push(Error::required(&wanted_place, detail));
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

    fn messages(sort: Sort, spec: &Value) -> Vec<String> {
        let mut object = json!({"metadata": {"name": "p.b"}, "spec": spec});
        let policy = Policy(sort);
        policy.default(&mut object);
        let mut errors = Errors::new();
        policy.judge(&object, true, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    /// A spec that is meant for pods, with more fields.
    fn spec(more: &Value) -> Value {
        let rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
        let mut spec = json!({"matchConstraints": {"resourceRules": [rule]}});
        for (name, value) in more.as_object().unwrap() {
            spec.set(name, value.clone());
        }
        spec
    }

    #[test]
    fn a_policy_says_what_it_is_for_and_what_it_asks() {
        let good = spec(
            &json!({"validations": [{"expression": "true"}], "variables": [{"name": "a", "expression": "1"}]}),
        );
        assert_eq!(messages(Sort::Validating, &good), [] as [&str; 0]);
        assert_eq!(
            messages(Sort::Validating, &json!({})),
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
        let messages: Vec<_> = messages(Sort::Validating, &bad)
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
    fn expressions_speak_of_what_they_may_and_give_what_is_wanted() {
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
        let messages: Vec<_> = messages(Sort::Validating, &object)
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
    fn mutations_give_parts_of_objects_or_patches() {
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
            messages(Sort::Mutating, &object),
            [
                "spec.mutations[2].jsonPatch.expression: Invalid value: \"[1]\": must evaluate to list(JSONPatch) but got \
                 list(int)",
                "spec.mutations[3].applyConfiguration.expression: Invalid value: \"{'a': 1}\": must evaluate to Object but got \
                 map(string, int)",
            ]
        );
    }

    #[test]
    fn a_mutation_has_the_part_of_its_type() {
        let spec = spec(&json!({
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "applyConfiguration": {"expression": "x"}}, {}],
        }));
        assert_eq!(
            messages(Sort::Mutating, &spec),
            [
                "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
                "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when \
                 patchType is JSONPatch",
                "spec.mutations[1].patchType: Required value",
            ]
        );
    }
}
