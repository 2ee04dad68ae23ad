//! Policies, and what they say.

use k3_api::{
    status::Status,
    strategy::{Tree, TreeMut},
};
use serde_json::{Value, json};

use super::super::{
    Admission, Operation,
    testing::{Passed, Request, World, widgets},
};

const VERSION: &str = "admissionregistration.k8s.io/v1";

struct Cluster {
    world: World,
    admission: Admission,
}

impl Cluster {
    async fn new() -> Self {
        let world = World::new().await;
        let admission = world.admission();
        let namespace = json!({"kind": "Namespace", "apiVersion": "v1",
            "metadata": {"name": "n", "labels": {"team": "a"}}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        world.put(namespace).await;
        Cluster { world, admission }
    }

    /// Puts a policy for config maps in, with what is said of it, and a binding.
    async fn bind(&self, sort: &str, name: &str, with: Value, binding: Value) {
        let mut spec = json!({"failurePolicy": "Fail", "matchConstraints": {"matchPolicy": "Equivalent", "namespaceSelector": {},
            "objectSelector": {}, "resourceRules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"], "scope": "*"}]}});
        let mut bound = json!({"policyName": name, "validationActions": ["Deny"]});
        for (into, from) in [(&mut spec, with), (&mut bound, binding)] {
            for (name, value) in from.as_object().unwrap() {
                into.set(name, value.clone());
            }
        }
        let object = |kind: String, name: String, spec: Value| json!({"kind": kind, "apiVersion": VERSION, "metadata": {"name": name}, "spec": spec});
        let kind = format!("{sort}AdmissionPolicy");
        self.world.put(object(kind.clone(), name.to_owned(), spec)).await;
        self.world
            .put(object(format!("{kind}Binding"), format!("{name}-b"), bound))
            .await;
    }

    async fn validating(with: Value) -> Self {
        let cluster = Cluster::new().await;
        cluster.bind("Validating", "p", with, json!({})).await;
        cluster
    }

    async fn mutating(mutations: Value) -> Self {
        let cluster = Cluster::new().await;
        let mut with = json!({"reinvocationPolicy": "Never"});
        with.set("mutations", mutations);
        cluster.bind("Mutating", "p", with, json!({})).await;
        cluster
    }

    async fn pass(&self, request: Request<'_>) -> Result<Passed, Status> {
        self.world.pass(&self.admission, request).await
    }

    async fn create(&self, data: Value) -> Result<Passed, Status> {
        self.pass(Request::create(config_map(data))).await
    }

    /// What a refusal says of a config map with this data, without what all refusals say.
    async fn refused(&self, data: Value) -> String {
        let message = self.create(data).await.unwrap_err().message;
        let by = "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p-b' denied request: ";
        message.strip_prefix(by).unwrap_or(&message).to_owned()
    }
}

fn config_map(data: Value) -> Value {
    let metadata = json!({"name": "c", "namespace": "n", "labels": {"a": "1"}});
    let mut object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata});
    object.set("data", data);
    object
}

fn rule(expression: &str) -> Value {
    json!({"validations": [{"expression": expression}]})
}

fn patch(expression: &str) -> Value {
    json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}])
}

fn apply(expression: &str) -> Value {
    json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}])
}

#[tokio::test]
async fn a_policy_refuses_what_its_expression_is_not_true_of() {
    let cluster = Cluster::validating(rule("!('bad' in object.data)")).await;
    assert!(cluster.create(json!({"good": "1"})).await.is_ok());
    let status = cluster.create(json!({"bad": "1"})).await.unwrap_err();
    let why = "ValidatingAdmissionPolicy 'p' with binding 'p-b' denied request: failed expression: !('bad' in object.data)";
    assert_eq!(
        status.to_value(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Invalid", "code": 422,
            "message": format!("configmaps \"c\" is forbidden: {why}"),
            "details": {"name": "c", "kind": "configmaps", "causes": [{"message": why}]}})
    );
}

#[tokio::test]
async fn a_message_is_made_up_or_said_or_is_the_expression() {
    for (with, message) in [
        (json!({"message": " plain "}), "plain"),
        (
            json!({"message": "plain", "messageExpression": "'made of ' + object.metadata.name"}),
            "made of c",
        ),
        (
            json!({"message": "plain", "messageExpression": "object.nothing"}),
            "plain",
        ),
        (
            json!({"message": "plain", "messageExpression": "'two\\nlines'"}),
            "plain",
        ),
        (json!({"messageExpression": "'  '"}), "failed expression: false"),
    ] {
        let mut validation = json!({"expression": "false"});
        for (name, value) in with.as_object().unwrap() {
            validation.set(name, value.clone());
        }
        let cluster = Cluster::validating(json!({"validations": [validation]})).await;
        assert_eq!(cluster.refused(json!({})).await, message, "{with}");
    }
}

#[tokio::test]
async fn a_reason_decides_the_code() {
    for (reason, code) in [
        ("Unauthorized", 401),
        ("Forbidden", 403),
        ("RequestEntityTooLarge", 413),
        ("Invalid", 422),
    ] {
        let cluster =
            Cluster::validating(json!({"validations": [{"expression": "false", "reason": reason}]})).await;
        let status = cluster.create(json!({})).await.unwrap_err();
        assert_eq!((status.code, status.reason.word()), (code, reason));
    }
}

#[tokio::test]
async fn what_cannot_be_found_out_refuses_or_is_passed_over() {
    for (expression, why) in [
        (
            "object.data.missing == 'x'",
            "expression 'object.data.missing == 'x'' resulted in error: no such key: missing",
        ),
        (
            "object.data",
            "compilation error: must evaluate to bool but got dyn",
        ),
    ] {
        let mut with = rule(expression);
        assert_eq!(
            Cluster::validating(with.clone()).await.refused(json!({})).await,
            why
        );
        with.set("failurePolicy", "Ignore");
        assert!(Cluster::validating(with).await.create(json!({})).await.is_ok());
    }
    let broken = Cluster::validating(rule("object."))
        .await
        .refused(json!({}))
        .await;
    assert!(
        broken.starts_with("compilation error: compilation failed: ERROR: <input>:1:8: Syntax error"),
        "{broken}"
    );
}

#[tokio::test]
async fn expressions_see_the_request_and_the_namespace_and_ask_what_is_allowed() {
    for expression in [
        "request.operation == 'CREATE' && request.namespace == 'n' && request.name == 'c'",
        "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps' && !has(request.subResource)",
        "request.userInfo.username == 'tester' && 'system:masters' in request.userInfo.groups",
        "request.options.fieldManager == 'me' && !request.dryRun",
        "oldObject == null && object.kind == 'ConfigMap'",
        "namespaceObject.metadata.labels.team == 'a' && namespaceObject.status.phase == 'Active'",
        "authorizer.group('').resource('pods').namespace('n').check('create').allowed()",
        "authorizer.requestResource.check('delete').allowed()",
        "!authorizer.serviceAccount('n', 'default').group('').resource('pods').check('create').allowed()",
    ] {
        let cluster = Cluster::validating(rule(expression)).await;
        let request = Request {
            query: "fieldManager=me",
            ..Request::create(config_map(json!({})))
        };
        let passed = cluster.pass(request).await.map_err(|status| status.message);
        assert!(passed.is_ok(), "{expression}: {passed:?}");
    }
}

#[tokio::test]
async fn an_update_shows_what_was_and_a_delete_nothing_else() {
    let cluster = Cluster::validating(rule(
        "request.operation == 'DELETE' ? object == null : object.data == oldObject.data",
    ))
    .await;
    let update = |data: Value| Request {
        operation: Operation::Update,
        old: Some(config_map(json!({"k": "1"}))),
        ..Request::create(config_map(data))
    };
    assert!(cluster.pass(update(json!({"k": "1"}))).await.is_ok());
    assert!(cluster.pass(update(json!({"k": "2"}))).await.is_err());
    let delete = Request {
        operation: Operation::Delete,
        ..Request::create(config_map(json!({})))
    };
    assert!(cluster.pass(delete).await.is_ok());
}

#[tokio::test]
async fn variables_use_those_before_them_and_only_those_that_are_asked_for_are_run() {
    let cluster = Cluster::validating(json!({
        "variables": [
            {"name": "one", "expression": "object.data.n"},
            {"name": "two", "expression": "variables.one + '!'"},
            {"name": "broken", "expression": "object.data.missing"},
        ],
        "validations": [{"expression": "variables.two == 'x!'", "messageExpression": "'got ' + variables.two"}],
    }))
    .await;
    assert!(cluster.create(json!({"n": "x"})).await.is_ok());
    assert_eq!(cluster.refused(json!({"n": "y"})).await, "got y!");
    let cluster = Cluster::validating(json!({
        "variables": [{"name": "broken", "expression": "object.data.missing"}],
        "validations": [{"expression": "variables.broken == 'x'"}],
    }))
    .await;
    assert_eq!(
        cluster.refused(json!({})).await,
        "expression 'variables.broken == 'x'' resulted in error: composited variable \"broken\" fails to evaluate: no such key: \
         missing"
    );
}

#[tokio::test]
async fn conditions_decide_whether_a_policy_is_asked_at_all() {
    for (conditions, why) in [
        (
            json!(["true", "object.data.k == '1'"]),
            Some("failed expression: false"),
        ),
        (json!(["object.data.k == '2'", "object.nothing"]), None),
        (
            json!(["object.nothing"]),
            Some("expression 'object.nothing' resulted in error: no such key: nothing"),
        ),
    ] {
        let conditions: Vec<Value> = conditions
            .as_array()
            .unwrap()
            .iter()
            .map(|expression| {
                let text = expression.as_str().unwrap();
                // Conditions must be known to be true or false.
                let text = if text == "object.nothing" {
                    "object.nothing == 1"
                } else {
                    text
                };
                json!({"name": "c", "expression": text})
            })
            .collect();
        let mut with = rule("false");
        with.set("matchConditions", conditions);
        let cluster = Cluster::validating(with).await;
        match (cluster.create(json!({"k": "1"})).await, why) {
            (Ok(_), None) => {}
            (Err(status), Some(why)) => {
                let why = why.replace("'object.nothing'", "'object.nothing == 1'");
                assert!(status.message.ends_with(&why), "{}", status.message);
            }
            (passed, why) => panic!("{passed:?} {why:?}"),
        }
    }
}

#[tokio::test]
async fn a_binding_says_what_follows() {
    for (actions, is_refused) in [(json!(["Deny"]), true), (json!(["Warn", "Audit"]), false)] {
        let cluster = Cluster::new().await;
        let binding = json!({"validationActions": actions});
        cluster.bind("Validating", "p", rule("false"), binding).await;
        let passed = cluster.create(json!({})).await;
        assert_eq!(passed.is_err(), is_refused);
        if let Ok(passed) = passed {
            assert_eq!(
                passed.warnings,
                [
                    "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p-b': failed expression: false"
                ]
            );
            assert_eq!(
                passed.notes["validation.policy.admission.k8s.io/validation_failure"],
                r#"[{"message":"failed expression: false","policy":"p","binding":"p-b","expressionIndex":0,"validationActions":["Warn","Audit"]}]"#
            );
        }
    }
}

#[tokio::test]
async fn the_audit_log_is_told_what_a_policy_wants_it_to_know() {
    let cluster = Cluster::validating(json!({"auditAnnotations": [
        {"key": "data", "valueExpression": "'has ' + string(size(object.data))"},
        {"key": "none", "valueExpression": "null"},
    ]}))
    .await;
    let passed = cluster.create(json!({"k": "1"})).await.unwrap();
    assert_eq!(passed.notes["p/data"], "has 1");
    assert_eq!(passed.notes.len(), 1);
}

#[tokio::test]
async fn a_policy_is_about_what_it_and_its_binding_are_about() {
    let only = |selector: &str, labels: Value| {
        let mut resources =
            json!({"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}});
        resources.set(selector, json!({"matchLabels": labels}));
        json!({"matchResources": resources})
    };
    for (binding, is_asked) in [
        (only("namespaceSelector", json!({"team": "a"})), true),
        (only("namespaceSelector", json!({"team": "b"})), false),
        (only("objectSelector", json!({"a": "1"})), true),
        (only("objectSelector", json!({"a": "2"})), false),
    ] {
        let cluster = Cluster::new().await;
        cluster
            .bind("Validating", "p", rule("false"), binding.clone())
            .await;
        assert_eq!(cluster.create(json!({})).await.is_err(), is_asked, "{binding}");
    }
    let mut with = rule("false");
    with.set(
        "matchConstraints",
        json!({"namespaceSelector": {}, "objectSelector": {}, "matchPolicy": "Equivalent",
            "resourceRules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
            "excludeResourceRules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "resourceNames": ["c"]}]}),
    );
    let cluster = Cluster::validating(with).await;
    assert!(cluster.create(json!({})).await.is_ok());
    let mut other = config_map(json!({}));
    other.ensure_object("metadata").set("name", "other");
    assert!(cluster.pass(Request::create(other)).await.is_err());
}

#[tokio::test]
async fn parameters_are_found_by_name_or_by_labels() {
    let with = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "object.data.k == params.data.k", "messageExpression": "'not ' + params.data.k"}]});
    let params = |name: &str, value: &str| {
        json!({"kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "n", "labels": {"for": "p"}}, "data": {"k": value}})
    };
    for (reference, value, expected) in [
        (json!({"name": "one"}), "1", ""),
        (json!({"name": "one"}), "2", "not 1"),
        (json!({"name": "one", "namespace": "n"}), "2", "not 1"),
        (json!({"selector": {"matchLabels": {"for": "p"}}}), "1", "not 2"),
        (
            json!({"name": "absent", "parameterNotFoundAction": "Allow"}),
            "9",
            "",
        ),
        (
            json!({"name": "absent", "parameterNotFoundAction": "Deny"}),
            "9",
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        ),
    ] {
        let cluster = Cluster::new().await;
        cluster.world.put(params("one", "1")).await;
        cluster.world.put(params("two", "2")).await;
        let binding = json!({"paramRef": reference});
        cluster.bind("Validating", "p", with.clone(), binding).await;
        match cluster.create(json!({"k": value})).await {
            Ok(_) => assert_eq!(expected, "", "{reference}"),
            Err(status) => assert!(
                status.message.ends_with(&format!("denied request: {expected}")),
                "{}",
                status.message
            ),
        }
    }
    let mut with = rule("true");
    with.set(
        "paramKind",
        json!({"apiVersion": "example.com/v1", "kind": "Absent"}),
    );
    assert!(
        Cluster::validating(with)
            .await
            .create(json!({}))
            .await
            .unwrap_err()
            .message
            .ends_with("ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by \
                        paramKind: 'example.com/v1, Kind=Absent'")
    );
}

#[tokio::test]
async fn the_first_reason_is_told_and_cost_is_bounded() {
    let cluster = Cluster::validating(json!({"validations": [
        {"expression": "true"}, {"expression": "false", "message": "first"}, {"expression": "false", "message": "second"},
    ]}))
    .await;
    assert_eq!(cluster.refused(json!({})).await, "first");
    let cluster = Cluster::validating(rule(
        "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, object.data.all(e, a != '')))))",
    ))
    .await;
    let data: serde_json::Map<String, Value> = (0..40).map(|n| (n.to_string(), json!("x"))).collect();
    let why = cluster.refused(Value::Object(data)).await;
    assert!(
        why.ends_with("operation cancelled: actual cost limit exceeded")
            || why
                == "validation failed due to running out of cost budget, no further validation rules will be run",
        "{why}"
    );
}

#[tokio::test]
async fn policies_are_never_judged_by_policies() {
    let mut with = rule("false");
    with.set(
        "matchConstraints",
        json!({"namespaceSelector": {}, "objectSelector": {},
            "resourceRules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}),
    );
    let cluster = Cluster::validating(with).await;
    let other =
        json!({"kind": "ValidatingAdmissionPolicy", "apiVersion": VERSION, "metadata": {"name": "other"}});
    assert!(cluster.pass(Request::create(other)).await.is_ok());
    assert!(cluster.create(json!({})).await.is_err());
}

#[tokio::test]
async fn a_policy_changes_an_object_by_operations() {
    let cluster = Cluster::mutating(patch(
        "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/by'), value: 'policy'}, \
         JSONPatch{op: 'add', path: '/data/k', value: object.metadata.name}]",
    ))
    .await;
    let passed = cluster.create(json!({})).await.unwrap();
    assert_eq!(passed.object["data"], json!({"k": "c"}));
    assert_eq!(
        passed.object["metadata"]["labels"],
        json!({"a": "1", "example.com/by": "policy"})
    );
    let cluster = Cluster::mutating(patch(
        "[JSONPatch{op: 'test', path: '/data/k', value: 'no'}, JSONPatch{op: 'add', path: '/data/k', value: 'x'}]",
    ))
    .await;
    let passed = cluster.create(json!({"k": "1"})).await.unwrap();
    assert_eq!(passed.object["data"]["k"], "1");
}

#[tokio::test]
async fn a_policy_changes_an_object_by_what_it_is_to_have() {
    let cluster = Cluster::mutating(apply(
        "Object{metadata: Object.metadata{labels: {'by': 'policy'}}, data: {'k': object.metadata.name}}",
    ))
    .await;
    let passed = cluster.create(json!({"old": "1"})).await.unwrap();
    assert_eq!(passed.object["data"], json!({"old": "1", "k": "c"}));
    assert_eq!(
        passed.object["metadata"]["labels"],
        json!({"a": "1", "by": "policy"})
    );
}

#[tokio::test]
async fn what_cannot_be_changed_refuses_the_request() {
    for (mutations, why) in [
        (
            apply("Object{metadata: Object.wrong{}}"),
            "type mismatch: unexpected type name \"Object.wrong\", expected \"Object.metadata\", which matches field name path \
             from root Object type",
        ),
        (
            patch("[JSONPatch{op: 'remove', path: '/nowhere'}]"),
            "JSON Patch: ",
        ),
        (
            apply("{'a': 1}"),
            "must evaluate to Object but got map(string, int)",
        ),
    ] {
        let cluster = Cluster::mutating(mutations).await;
        let status = cluster.create(json!({})).await.unwrap_err();
        assert_eq!((status.code, status.reason.word()), (403, "Invalid"));
        let by = "policy 'p' with binding 'p-b' denied request: ";
        assert!(
            status.message.starts_with(&format!("{by}{why}")),
            "{}",
            status.message
        );
    }
}

#[tokio::test]
async fn policies_run_by_name_and_again_when_they_want_to() {
    let append = |letter: &str| {
        patch(&format!(
            "[JSONPatch{{op: 'add', path: '/data/trace', value: (has(object.data.trace) ? object.data.trace : '') + '{letter}'}}]"
        ))
    };
    let cluster = Cluster::new().await;
    let with = |letter: &str, again: &str| json!({"mutations": append(letter), "reinvocationPolicy": again});
    cluster.bind("Mutating", "z", with("c", "Never"), json!({})).await;
    cluster
        .bind("Mutating", "k", with("a", "IfNeeded"), json!({}))
        .await;
    let passed = cluster.create(json!({})).await.unwrap();
    assert_eq!(passed.object.at("data").text("trace"), "aca");
}

#[tokio::test]
async fn parameters_may_be_of_a_kind_that_users_define() {
    let cluster = Cluster::new().await;
    cluster.world.put(widgets()).await;
    let widget = json!({"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w", "namespace": "n"},
        "spec": {"wanted": "1"}});
    cluster.world.put(widget).await;
    let mut with = rule("params.apiVersion == 'example.com/v2' && object.data.k == params.spec.wanted");
    with.set(
        "paramKind",
        json!({"apiVersion": "example.com/v2", "kind": "Widget"}),
    );
    let binding = json!({"paramRef": {"name": "w", "parameterNotFoundAction": "Deny"}});
    cluster.bind("Validating", "p", with, binding).await;
    assert!(cluster.create(json!({"k": "1"})).await.is_ok());
    assert!(cluster.create(json!({"k": "2"})).await.is_err());
}

#[tokio::test]
async fn objects_of_a_kind_that_users_define_are_changed_and_judged() {
    let cluster = Cluster::new().await;
    cluster.world.put(widgets()).await;
    let about = json!({"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "resourceRules": [
        {"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"]}]});
    let changes = json!({"matchConstraints": about, "reinvocationPolicy": "Never",
        "mutations": apply("Object{spec: Object.spec{size: object.spec.size + 1}}")});
    cluster.bind("Mutating", "m", changes, json!({})).await;
    let judges = json!({"matchConstraints": about, "validations": [{"expression": "object.spec.size < 3"}]});
    cluster.bind("Validating", "p", judges, json!({})).await;
    let widget = |size: u32| {
        json!({"kind": "Widget", "apiVersion": "example.com/v2", "metadata": {"name": "w", "namespace": "n"},
            "spec": {"size": size}})
    };
    let passed = cluster.pass(Request::create(widget(1))).await.unwrap();
    assert_eq!(passed.object, widget(2));
    assert!(cluster.pass(Request::create(widget(2))).await.is_err());
}
