//! Type checks of the CEL expressions of a policy against the kinds that it matches.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go TypeChecker, Check, CreateContext, CheckExpression

use std::collections::BTreeSet;

use k3_cel::{DeclType, Environment, ObjectDeclType, Program, Shape};
use serde_json::Value;

use super::{OptionalVariableDeclarations, environment};
use crate::strategy::Tree;

/// So many resources of a rule are looked at.
const MAX_RESOURCES: usize = 10;

/// A kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// The group; empty for the first one.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// A resource that a policy names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedResource {
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The resource.
    pub resource: String,
}

/// What a policy is about.
#[derive(Debug, Default)]
pub struct PolicyTypes {
    /// The kinds of its objects, each with what its objects look like, if that is known.
    pub objects: Vec<(GroupVersionKind, Option<DeclType>)>,
    /// What its parameters look like.
    pub params: Option<DeclType>,
}

/// Something that does not suit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionWarning {
    /// The field that has the expression.
    pub field: String,
    /// What does not suit, for each kind.
    pub text: String,
}

/// The kinds of the objects that a policy is about, as far as discovery knows the resources that it names. A rule with a `*` in
/// groups or versions names none; nor is it asked what a part of an object looks like.
pub fn types_to_check(
    policy: &Value,
    find: impl Fn(&MatchedResource) -> Option<GroupVersionKind>,
) -> Vec<GroupVersionKind> {
    let mut types_to_check = BTreeSet::new();
    for rule in policy.at_path("spec.matchConstraints").items("resourceRules") {
        let named = named(rule);
        let found: Vec<_> = named.iter().filter_map(&find).take(MAX_RESOURCES).collect();
        let is_full = found.len() == MAX_RESOURCES;
        types_to_check.extend(found);
        if is_full {
            break;
        }
    }
    types_to_check.into_iter().collect()
}

fn named(rule: &Value) -> Vec<MatchedResource> {
    let sorted = |field: &str| {
        let mut texts: Vec<&str> = rule.texts(field).collect();
        texts.sort_unstable();
        texts
    };
    let groups = sorted("apiGroups");
    let versions = sorted("apiVersions");
    if groups.iter().chain(&versions).any(|text| text.contains('*')) {
        return Vec::new();
    }
    let mut resources = sorted("resources");
    resources.retain(|resource| !resource.contains(['*', '/']));
    let mut named = Vec::new();
    for group in &groups {
        for version in &versions {
            named.extend(resources.iter().map(|resource| MatchedResource {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
                resource: (*resource).to_owned(),
            }));
        }
    }
    named
}

/// What does not suit of a policy's expressions.
pub fn type_check(policy: &Value, types: &PolicyTypes) -> Vec<ExpressionWarning> {
    let spec = policy.at("spec");
    let reach = OptionalVariableDeclarations {
        params: spec.has("paramKind"),
        authorizer: true,
    };
    let variables = spec.items("variables");
    let scopes: Vec<_> = types
        .objects
        .iter()
        .map(|(kind, decl)| {
            (
                kind,
                scope(reach, decl.as_ref(), types.params.as_ref(), variables),
            )
        })
        .collect();
    let mut warnings = Vec::new();
    for (index, validation) in spec.items("validations").iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let expression = validation.text(field);
            if field == "messageExpression" && expression.is_empty() {
                continue;
            }
            let wrong = |(kind, scope): &(&GroupVersionKind, Environment)| {
                let error = compile_error(scope, expression)?;
                let GroupVersionKind { group, version, kind } = kind;
                Some(format!("{group}/{version}, Kind={kind}: {error}\n"))
            };
            let texts: Vec<_> = scopes.iter().filter_map(wrong).collect();
            if !texts.is_empty() {
                warnings.push(ExpressionWarning {
                    field: format!("spec.validations[{index}].{field}"),
                    text: texts.join("\n"),
                });
            }
        }
    }
    warnings
}

/// What an expression may speak of for objects of a kind.
fn scope(
    reach: OptionalVariableDeclarations,
    object: Option<&DeclType>,
    params: Option<&DeclType>,
    variables: &[Value],
) -> Environment {
    let mut scope = environment(reach);
    if let Some(object) = object {
        scope = scope
            .variable("object", object.clone())
            .variable("oldObject", object.clone());
    }
    if let Some(params) = params.filter(|_| reach.params) {
        scope = scope.variable("params", params.clone());
    }
    let mut fields = ObjectDeclType::new("kubernetes.variables");
    for variable in variables {
        let known = scope
            .clone()
            .variable("variables", DeclType::object(fields.clone()));
        let decl = match Program::compile(&known, variable.text("expression")) {
            Ok(program) => DeclType::from(program.result_type()),
            Err(_) => Shape::Dyn.into(),
        };
        fields = fields.plain(variable.text("name"), decl);
    }
    scope.variable("variables", DeclType::object(fields))
}

/// Why an expression does not compile. It is not run.
fn compile_error(scope: &Environment, expression: &str) -> Option<String> {
    let error = Program::compile(scope, expression).err()?;
    (!error.is_instantiation()).then(|| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::declared, *};

    fn policy(expressions: &[&str]) -> Value {
        let validations: Vec<_> = expressions
            .iter()
            .map(|expression| json!({"expression": expression}))
            .collect();
        json!({"spec": {
            "validations": validations, "variables": [{"name": "count", "expression": "object.spec.replicas"}],
        }})
    }

    fn deployments() -> PolicyTypes {
        let kind = GroupVersionKind {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            kind: "Deployment".to_owned(),
        };
        PolicyTypes {
            objects: vec![(kind, declared("apps", "v1", "Deployment"))],
            params: None,
        }
    }

    #[test]
    fn expressions_that_suit_the_kind_are_not_spoken_of() {
        let fine = policy(&[
            "object.spec.replicas > 1 && variables.count < 5",
            "object.metadata.labels['a'] == 'b' && oldObject.metadata.name != ''",
            "object.spec.template.spec.containers.all(c, c.name != '' && c.ports.all(p, p.containerPort > 1))",
            "has(object.metadata.deletionTimestamp) && authorizer.group('').resource('pods').check('get').allowed()",
            "object.spec.strategy.rollingUpdate.maxSurge == 1",
        ]);
        assert_eq!(type_check(&fine, &deployments()), []);
    }

    #[test]
    fn reports_type_errors_with_their_field() {
        let wrong = policy(&[
            "object.spec.replicas > 1",
            "object.spec.replicas > '1'",
            "object.spec.foo == 1",
        ]);
        let warnings = type_check(&wrong, &deployments());
        let fields: Vec<_> = warnings.iter().map(|warning| warning.field.as_str()).collect();
        assert_eq!(
            fields,
            ["spec.validations[1].expression", "spec.validations[2].expression"]
        );
        assert_eq!(
            warnings[1].text,
            "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'foo'\n | object.spec.foo == 1\n | ...........^\n"
        );
        // Types without a schema are declared dyn.
        let mut types = deployments();
        types.objects[0].1 = None;
        assert_eq!(type_check(&wrong, &types), []);
    }

    #[test]
    fn a_policy_names_resources_unless_it_means_all() {
        let rule = |groups: &[&str], resources: &[&str]| json!({"apiGroups": groups, "apiVersions": ["v1"], "resources": resources});
        let policy = json!({"spec": {"matchConstraints": {"resourceRules": [
            rule(&["apps"], &["statefulsets", "deployments", "deployments/scale", "*"]), rule(&["*"], &["pods"]),
        ]}}});
        let kind = |matched: &MatchedResource| {
            Some(GroupVersionKind {
                group: matched.group.clone(),
                version: matched.version.clone(),
                kind: matched.resource.to_uppercase(),
            })
        };
        let names: Vec<_> = types_to_check(&policy, kind)
            .into_iter()
            .map(|kind| kind.kind)
            .collect();
        assert_eq!(names, ["DEPLOYMENTS", "STATEFULSETS"]);
    }
}
