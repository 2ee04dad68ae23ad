//! What roles and bindings allow: by rule, against a plain scan of all bindings, and at what cost.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    super::{
        AuthorizationTarget, Decision,
        testing::{TestCluster, object, user},
    },
    PolicyRule, RbacAuthorizer, RbacState,
};
use crate::authz::AuthorizationAttributes;

const VERSION: &str = "rbac.authorization.k8s.io/v1";

/// A role in a namespace, or for the whole cluster if that is empty.
fn role(namespace: &str, name: &str, rules: &Value) -> Value {
    let kind = if namespace.is_empty() {
        "ClusterRole"
    } else {
        "Role"
    };
    json!({"apiVersion": VERSION, "kind": kind, "metadata": meta(namespace, name), "rules": rules})
}

fn meta(namespace: &str, name: &str) -> Value {
    if namespace.is_empty() {
        json!({"name": name})
    } else {
        json!({"name": name, "namespace": namespace})
    }
}

/// A binding of a role, written `ClusterRole/name` or `Role/name`, to a subject, written `User/name` and so on.
fn binding(namespace: &str, name: &str, role: &str, subjects: &[&str]) -> Value {
    let kind = if namespace.is_empty() {
        "ClusterRoleBinding"
    } else {
        "RoleBinding"
    };
    let (role_kind, role) = role.split_once('/').unwrap();
    let subjects: Vec<_> = subjects.iter().map(|subject| self::subject(subject)).collect();
    json!({"apiVersion": VERSION, "kind": kind, "metadata": meta(namespace, name),
        "roleRef": {"kind": role_kind, "name": role}, "subjects": subjects})
}

fn subject(text: &str) -> Value {
    let parts: Vec<_> = text.split('/').collect();
    match parts.as_slice() {
        [kind, namespace, name] => json!({"kind": kind, "namespace": namespace, "name": name}),
        [kind, name] => json!({"kind": kind, "name": name}),
        _ => panic!("{text}"),
    }
}

fn reading(resources: &[&str]) -> Value {
    json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": resources}])
}

#[tokio::test]
async fn aggregated_rules_apply_immediately() {
    let world = TestCluster::new().await;
    let gathering = |name: &str, gathers: &str, part_of: &str| {
        let mut role = role("", name, &json!([]));
        role["metadata"]["labels"] = json!({part_of: "true"});
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {gathers: "true"}}]});
        role
    };
    // Two that gather each other end all the same.
    world.put(&gathering("edit", "to-edit", "to-admin")).await;
    world.put(&gathering("admin", "to-admin", "to-edit")).await;
    world
        .put(&binding("n", "b", "ClusterRole/admin", &["User/ann"]))
        .await;
    let ann = user("ann", &[]);
    let may = |resource: &str| world.may(&ann, "get", resource, "n", "x");
    assert!(!may("pods"));
    let mut part = role("", "pods", &reading(&["pods"]));
    part["metadata"]["labels"] = json!({"to-edit": "true"});
    world.put(&part).await;
    assert!(may("pods"));
    assert!(!may("secrets"));
    part["rules"] = reading(&["secrets"]);
    world.put(&part).await;
    assert!(!may("pods"));
    assert!(may("secrets"));
    world.remove(&part).await;
    assert!(!may("secrets"));
}

#[tokio::test]
async fn role_binding_is_namespaced_and_cluster_role_binding_global() {
    let world = TestCluster::new().await;
    world.put(&role("", "reader", &reading(&["pods"]))).await;
    world
        .put(&binding("a", "b", "ClusterRole/reader", &["User/alice"]))
        .await;
    let alice = user("alice", &[]);
    assert!(world.may(&alice, "get", "pods", "a", "x"));
    assert!(!world.may(&alice, "get", "pods", "b", "x") && !world.may(&alice, "list", "pods", "", ""));
    assert!(!world.may(&alice, "delete", "pods", "a", "x"));
    assert!(!world.may(&alice, "get", "pods/log", "a", "x"));
    assert!(!world.may(&user("bob", &[]), "get", "pods", "a", "x"));
    world
        .put(&binding("", "b", "ClusterRole/reader", &["Group/devs"]))
        .await;
    assert!(world.may(&user("bob", &["devs"]), "list", "pods", "", ""));
}

#[tokio::test]
async fn decisions_follow_role_and_binding_changes() {
    let world = TestCluster::new().await;
    let alice = user("alice", &[]);
    let bound = binding("a", "b", "Role/r", &["User/alice"]);
    world.put(&bound).await;
    assert_eq!(
        world.ask(
            &alice,
            "get",
            AuthorizationTarget::Resource(object("pods", "a", ""))
        ),
        Decision::NoOpinion("rbac: RBAC: role.rbac.authorization.k8s.io \"r\" not found".to_owned())
    );
    let may = || world.may(&alice, "get", "pods", "a", "");
    world.put(&role("a", "r", &reading(&["pods"]))).await;
    assert!(may());
    world.put(&role("a", "r", &reading(&["secrets"]))).await;
    assert!(!may());
    world.put(&role("a", "r", &reading(&["*"]))).await;
    assert!(may());
    world.put(&binding("a", "b", "Role/r", &["User/bob"])).await;
    assert!(!may());
    world
        .put(&binding("a", "b", "Role/r", &["User/bob", "User/alice"]))
        .await;
    assert!(may());
    world.remove(&bound).await;
    assert!(!may());
    world.put(&bound).await;
    assert!(may());
    world.remove(&role("a", "r", &json!([]))).await;
    assert!(!may());
}

#[tokio::test]
async fn service_account_subjects_match_user_names() {
    let world = TestCluster::new().await;
    world.put(&role("", "r", &reading(&["pods"]))).await;
    world
        .put(&binding("a", "b", "ClusterRole/r", &["ServiceAccount/x"]))
        .await;
    // A service account subject without namespace matches no user cluster-wide.
    world
        .put(&binding(
            "",
            "b",
            "ClusterRole/r",
            &["ServiceAccount/y", "ServiceAccount/c/z"],
        ))
        .await;
    let may = |name: &str| world.may(&user(name, &[]), "get", "pods", "a", "p");
    assert!(may("system:serviceaccount:a:x") && may("system:serviceaccount:c:z"));
    assert!(!may("system:serviceaccount:b:x") && !may("system:serviceaccount:a:y") && !may("x"));
    assert!(!may("system:serviceaccount::y"));
    assert_eq!(
        world.ask(
            &user("system:serviceaccount:a:x", &[]),
            "get",
            AuthorizationTarget::Resource(object("pods", "a", "p"))
        ),
        Decision::Allow(
            "RBAC: allowed by RoleBinding \"b/a\" of ClusterRole \"r\" to ServiceAccount \"x/a\"".to_owned()
        )
    );
}

#[tokio::test]
async fn reason_names_first_matching_subject() {
    let world = TestCluster::new().await;
    world.put(&role("", "y", &reading(&["pods"]))).await;
    world
        .put(&binding(
            "",
            "x",
            "ClusterRole/y",
            &["User/bob", "Group/devs", "User/z"],
        ))
        .await;
    let reason = |who| match world.ask(
        &who,
        "get",
        AuthorizationTarget::Resource(object("pods", "", "p")),
    ) {
        Decision::Allow(reason) => reason,
        other @ Decision::NoOpinion(_) => panic!("{other:?}"),
    };
    let of = "RBAC: allowed by ClusterRoleBinding \"x\" of ClusterRole \"y\" to";
    assert_eq!(reason(user("z", &["devs"])), format!("{of} Group \"devs\""));
    assert_eq!(reason(user("z", &[])), format!("{of} User \"z\""));
}

#[tokio::test]
async fn reports_missing_role_once_and_masters_bypass_rbac() {
    let world = TestCluster::new().await;
    for name in ["a", "b"] {
        world
            .put(&binding("", name, "ClusterRole/missing", &["User/alice"]))
            .await;
    }
    world
        .put(&binding("n", "c", "Role/missing", &["User/alice"]))
        .await;
    let alice = user("alice", &[]);
    let pods = AuthorizationTarget::Resource(object("pods", "n", ""));
    let text = "rbac: RBAC: [clusterrole.rbac.authorization.k8s.io \"missing\" not found, role.rbac.authorization.k8s.io \"missing\" \
                not found]";
    assert_eq!(
        world.ask(&alice, "get", pods),
        Decision::NoOpinion(text.to_owned())
    );
    let rules = world.authorizer.rules(&alice, "n");
    assert_eq!(rules.error.as_deref(), text.strip_prefix("rbac: RBAC: "));
    assert_eq!(
        world.ask(&user("root", &["system:masters"]), "any", pods),
        Decision::Allow(String::new())
    );
}

#[test]
fn rule_matching() {
    let rule = |verbs: &str, groups: &str, resources: &str, names: &[&str]| {
        let list = |text: &str| -> Vec<String> { text.split(',').map(str::to_owned).collect() };
        let rule = json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources), "resourceNames": names});
        PolicyRule::all_of(&json!({"rules": [rule]})).remove(0)
    };
    let who = user("u", &[]);
    let allows = |rule: &PolicyRule, verb: &str, what: &str, name: &str| {
        rule.allows(&AuthorizationAttributes {
            user: &who,
            verb,
            what: AuthorizationTarget::Resource(object(what, "n", name)),
        })
    };
    let scale = rule("update", "*", "*/scale,pods/log", &[]);
    assert!(
        allows(&scale, "update", "apps:deployments/scale", "x") && allows(&scale, "update", "pods/log", "x")
    );
    assert!(!allows(&scale, "update", "apps:deployments", "x") && !allows(&scale, "update", "pods", "x"));
    assert!(
        !allows(&scale, "update", "apps:deployments/status", "x") && !allows(&scale, "get", "pods/log", "x")
    );
    assert!(!allows(&scale, "update", "scale", "x") && !allows(&scale, "update", "*:*/sc", "x"));
    let named = rule("*", "", "pods", &["a", "b"]);
    assert!(allows(&named, "delete", "pods", "a") && !allows(&named, "delete", "pods", "c"));
    assert!(!allows(&named, "list", "pods", "") && !allows(&named, "get", "apps:pods", "a"));
    let all = rule("*", "*", "*", &[]);
    assert!(allows(&all, "x", "g:r/s", "") && !allows(&rule("get", "", "pod", &[]), "get", "pods", ""));
    let paths =
        PolicyRule::all_of(&json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/a", "/b/*", "/c*"]}]}))
            .remove(0);
    let leads = |path| {
        paths.allows(&AuthorizationAttributes {
            user: &who,
            verb: "get",
            what: AuthorizationTarget::Path(path),
        })
    };
    assert!(leads("/a") && leads("/b/") && leads("/b/x/y") && leads("/c") && leads("/cd"));
    assert!(!leads("/b") && !leads("/a/") && !leads("/ab") && !leads("/d") && !leads("*"));
    assert!(!allows(&paths, "get", "pods", ""));
}

/// A word of a few, so that random rules and requests meet.
fn choice(choices: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(choices).prop_map(str::to_owned)
}

fn choices(choices: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(choice(choices), 0..3)
}

const NAMESPACES: &[&str] = &["", "a", "b"];
const NAMES: &[&str] = &["x", "y", "z"];
const RESOURCES: &[&str] = &["pods", "pods/log", "*/log", "*", "nodes"];
const SUBJECTS: &[&str] = &[
    "User/alice",
    "User/bob",
    "Group/g",
    "Group/h",
    "ServiceAccount/x",
    "ServiceAccount/a/x",
    "Robot/alice",
];

/// A role or binding is added, changed or deleted.
fn step() -> impl Strategy<Value = (Value, bool)> {
    let rule = (choices(&["get", "list", "*"]), choices(&["", "apps", "*"]), choices(RESOURCES), choices(NAMES)).prop_map(
        |(verbs, groups, resources, names)| json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names}),
    );
    let roles = (
        choice(NAMESPACES),
        choice(NAMES),
        prop::collection::vec(rule, 0..3),
    )
        .prop_map(|(namespace, name, rules)| role(&namespace, &name, &json!(rules)));
    let kinds = choice(&["ClusterRole", "Role"]);
    let bindings = (
        choice(NAMESPACES),
        choice(NAMES),
        kinds,
        choice(NAMES),
        choices(SUBJECTS),
    )
        .prop_map(|(namespace, name, kind, role, subjects)| {
            let subjects: Vec<_> = subjects.iter().map(String::as_str).collect();
            binding(&namespace, &name, &format!("{kind}/{role}"), &subjects)
        });
    (prop_oneof![roles, bindings], prop::bool::weighted(0.8))
}

/// The state that steps lead to, as a plain list.
type ObjectList = Vec<Value>;

fn same(a: &Value, b: &Value) -> bool {
    a["kind"] == b["kind"] && a["metadata"] == b["metadata"]
}

/// What upstream does: look at every binding.
fn scan(
    all: &ObjectList,
    name: &str,
    groups: &[&str],
    action: &AuthorizationAttributes<'_>,
    namespace: &str,
) -> bool {
    let of = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    all.iter().any(|bound| {
        let within = of(&bound["metadata"], "namespace");
        let is_binding = of(bound, "kind").ends_with("Binding");
        let subjects = bound["subjects"].as_array().cloned().unwrap_or_default();
        let is_for = subjects.iter().any(|subject| {
            let who = of(subject, "name");
            let own = of(subject, "namespace");
            let home = if own.is_empty() { &within } else { &own };
            match of(subject, "kind").as_str() {
                "User" => who == name,
                "Group" => groups.contains(&who.as_str()),
                "ServiceAccount" => !home.is_empty() && name == format!("system:serviceaccount:{home}:{who}"),
                _ => false,
            }
        });
        let counts = within.is_empty() || within == namespace;
        let kind = of(&bound["roleRef"], "kind");
        let role = all.iter().find(|role| {
            let home = if kind == "Role" { within.as_str() } else { "" };
            of(role, "kind") == kind
                && of(&role["metadata"], "namespace") == home
                && of(&role["metadata"], "name") == of(&bound["roleRef"], "name")
        });
        is_binding
            && is_for
            && counts
            && role.is_some_and(|role| PolicyRule::all_of(role).iter().any(|rule| rule.allows(action)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The index agrees with a scan of all bindings after any history.
    #[test]
    fn index_equals_full_scan(steps in prop::collection::vec(step(), 1..40), pause in 1..10usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = TestCluster::new().await;
            let mut plain = ObjectList::new();
            for (at, (object, stays)) in steps.iter().enumerate() {
                let known = plain.iter().position(|other| same(other, object));
                match (known, stays) {
                    (Some(known), false) => {
                        world.remove(object).await;
                        plain.remove(known);
                    }
                    (None, false) => {}
                    (known, true) => {
                        world.put(object).await;
                        known.map(|known| plain.remove(known));
                        plain.push(object.clone());
                    }
                }
                // Sometimes the index is asked after every change, sometimes after many.
                if at % pause == 0 || at + 1 == steps.len() {
                    compare(&world, &plain);
                }
            }
        });
    }
}

fn compare(world: &TestCluster, plain: &ObjectList) {
    for (name, groups) in [
        ("alice", &["g"][..]),
        ("bob", &["g", "h"]),
        ("system:serviceaccount:a:x", &[]),
    ] {
        let who = user(name, groups);
        for namespace in NAMESPACES {
            for what in ["pods", "pods/log", "apps:nodes", "nodes"] {
                for (verb, target) in [("get", "x"), ("list", ""), ("delete", "y")] {
                    let action = AuthorizationAttributes {
                        user: &who,
                        verb,
                        what: AuthorizationTarget::Resource(object(what, namespace, target)),
                    };
                    assert_eq!(
                        world.may(&who, verb, what, namespace, target),
                        scan(plain, name, groups, &action, namespace),
                        "{name} {verb} {what} {namespace} {target} {plain:?}"
                    );
                }
            }
        }
    }
}

/// What a decision costs beside ten thousand bindings. Run it with `--release --run-ignored all --no-capture`.
#[tokio::test]
#[ignore = "a figure, not a claim: it is only worth something in a release build"]
async fn decision_cost_with_ten_thousand_bindings() {
    const DECISIONS: u32 = 200_000;
    let world = TestCluster::new().await;
    for role in k3_api::bootstrap::cluster_roles().chain(k3_api::bootstrap::cluster_role_bindings()) {
        world.put(&role).await;
    }
    for number in 0..10_000 {
        let namespace = format!("n{}", number % 1000);
        let subject = format!("User/u{number}");
        let bound = binding(
            &namespace,
            &format!("b{number}"),
            "ClusterRole/system:aggregate-to-view",
            &[&subject],
        );
        world.put(&bound).await;
    }
    let who = user("u5000", &["system:authenticated"]);
    let begun = Instant::now();
    assert!(world.may(&who, "get", "pods", "n0", "x"));
    println!("first decision, which builds the index: {:?}", begun.elapsed());
    for (verb, what, namespace) in [
        ("get", "pods", "n0"),
        ("list", "batch:jobs", "n0"),
        ("get", "pods", "n1"),
    ] {
        let begun = Instant::now();
        for _ in 0..DECISIONS {
            std::hint::black_box(world.may(&who, verb, what, namespace, "x"));
        }
        println!(
            "{verb} {what} in {namespace}: {:?} a decision",
            begun.elapsed() / DECISIONS
        );
    }
    let begun = Instant::now();
    for number in 0..100 {
        world
            .put(&binding(
                "n0",
                &format!("late{number}"),
                "ClusterRole/view",
                &["User/late"],
            ))
            .await;
        std::hint::black_box(world.may(&who, "get", "pods", "n0", "x"));
    }
    println!(
        "a new binding and a decision after it: {:?}",
        begun.elapsed() / 100
    );
}

#[tokio::test]
async fn interrupted_update_is_repeated_before_a_decision() {
    let world = TestCluster::new().await;
    world.put(&role("", "reader", &reading(&["pods"]))).await;
    world
        .put(&binding("", "b", "ClusterRole/reader", &["User/alice"]))
        .await;
    let authorizer = RbacAuthorizer::new(Arc::clone(&world.caches));
    let alice = user("alice", &[]);
    let is_allowed = || {
        let action = AuthorizationAttributes {
            user: &alice,
            verb: "get",
            what: AuthorizationTarget::Resource(object("pods", "a", "p")),
        };
        matches!(authorizer.decide(&action), Decision::Allow(_))
    };
    assert!(is_allowed());
    // As a panic leaves it: changes were taken from the followers, and did not reach the index.
    let mut state = authorizer.state.write();
    *state = RbacState {
        is_complete: false,
        index: super::RbacIndex::default(),
        ..std::mem::replace(&mut *state, RbacState::new(&world.caches))
    };
    drop(state);
    assert!(is_allowed());
}
