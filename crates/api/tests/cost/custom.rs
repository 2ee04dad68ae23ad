//! Custom objects: schemas times objects.

use std::sync::Arc;

use k3_api::{
    custom::Definition,
    kinds::{Kind, Persistence, Scope, builtin},
    schema::ObjectType,
    status::Status,
    strategy::{self, StrategyContext, User, WrittenPart},
    time::Time,
};
use serde_json::{Map, Value, json};

use super::clock::assert_grows_slowly;

fn now() -> Time {
    Time::from_unix(1_700_000_000, 0)
}

/// A definition whose objects have a list `items` of such values.
fn definition(items: &Value, more: &Value) -> Value {
    let mut list = json!({"type": "array", "items": items});
    for (name, value) in more.as_object().expect("what is added is an object") {
        list[name] = value.clone();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"items": list}}},
            }],
        },
    })
}

fn kind(definition: &Value) -> Kind {
    let definition = Definition::read(definition).expect("the definition is valid");
    let rules = Arc::clone(&definition.version("v1").expect("there is one version").strategy);
    Kind {
        group: "example.com".to_owned().into(),
        version: "v1".to_owned().into(),
        kind: "Widget".to_owned().into(),
        plural: "widgets".to_owned().into(),
        singular: "widget".to_owned().into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: Scope::Cluster,
        persistence: Persistence::Stored,
        verbs: Vec::new(),
        subresources: Vec::new(),
        ty: ObjectType::Custom(Arc::clone(&rules) as _),
        strategy: Some(rules),
    }
}

fn object(items: &[Value]) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}, "items": items,
    })
}

fn bounded<T>(answer: Result<T, Status>) {
    if let Err(status) = answer {
        assert!(status.to_json().len() <= 256 * 1024);
    }
}

/// Checks objects of as many items as the schema has parts.
fn check(name: &str, schema: impl Fn(usize) -> (Value, Value), item: impl Fn(usize) -> Value) {
    let prepare = |count: usize| {
        let (items, more) = schema(count);
        let items_of_object: Vec<_> = (0..count).map(&item).collect();
        (kind(&definition(&items, &more)), object(&items_of_object))
    };
    let run = |(kind, object): (Kind, Value), changed: bool| {
        let user = User::default();
        let at = StrategyContext {
            kind: &kind,
            now: now(),
            user: &user,
        };
        let mut new = kind
            .ty
            .normalize(&object)
            .expect("objects are of their kind")
            .value;
        strategy::for_kind(&kind).set_defaults(&mut new);
        if changed {
            let old = new.clone();
            new["items"][0] = json!({"changed": true});
            bounded(strategy::update(&mut new, &old, WrittenPart::Object, &at));
        } else {
            bounded(strategy::create(&mut new, &at));
        }
    };
    assert_grows_slowly(&format!("create {name}"), prepare, |input| run(input, false));
    assert_grows_slowly(&format!("update {name}"), prepare, |input| run(input, true));
}

fn properties(count: usize, schema: &Value) -> Value {
    let fields: Map<_, _> = (0..count)
        .map(|number| (format!("f{number}"), schema.clone()))
        .collect();
    Value::Object(fields)
}

#[test]
fn list_validation_grows_linearly() {
    let text = json!({"type": "string"});
    check(
        "set",
        |_| (text.clone(), json!({"x-kubernetes-list-type": "set"})),
        |number| json!(format!("v{number}")),
    );
    check(
        "set of equals",
        |_| (text.clone(), json!({"x-kubernetes-list-type": "set"})),
        |_| json!("v"),
    );
    let keyed = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}});
    let map = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    check(
        "map",
        |_| (keyed.clone(), map.clone()),
        |number| json!({"name": format!("v{number}"), "n": "no"}),
    );
    check(
        "map of equals",
        |_| (keyed.clone(), map.clone()),
        |_| json!({"name": "v"}),
    );
}

#[test]
fn validation_reads_only_relevant_schema_parts() {
    let integer = json!({"type": "integer"});
    check(
        "many properties",
        |count| {
            (
                json!({"type": "object", "properties": properties(count, &integer)}),
                json!({}),
            )
        },
        |number| json!({format!("f{number}"): "no"}),
    );
    let default = json!({"type": "integer", "default": 1});
    check(
        "one default among many properties",
        |count| {
            let mut fields = properties(count, &integer);
            fields["d"] = default.clone();
            (json!({"type": "object", "properties": fields}), json!({}))
        },
        |_| json!({}),
    );
}

/// The product of both is refused, and soon.
#[test]
fn rejects_schemas_with_quadratic_cost() {
    let user = User::default();
    let count = 20_000;
    let names: Vec<_> = (0..count).map(|number| json!(format!("f{number}"))).collect();
    let branches: Vec<_> = (0..count).map(|number| json!({"minimum": number})).collect();
    for (name, items, item) in [
        (
            "required",
            json!({"type": "object", "required": names}),
            json!({}),
        ),
        ("anyOf", json!({"type": "integer", "anyOf": branches}), json!(-1)),
        ("enum", json!({"type": "string", "enum": names}), json!("none")),
    ] {
        let kind = kind(&definition(&items, &json!({})));
        let at = StrategyContext {
            kind: &kind,
            now: now(),
            user: &user,
        };
        let mut object = object(&vec![item; count]);
        let status = strategy::create(&mut object, &at).unwrap_err();
        assert!(
            status.message.contains("too large to be validated"),
            "{name}: {}",
            &status.message[..200]
        );
    }
}

#[test]
fn large_defaults_are_bounded_in_memory() {
    let default = "x".repeat(1 << 20);
    let items = json!({"type": "object", "properties": {"d": {"type": "string", "default": default}}});
    let kind = kind(&definition(&items, &json!({})));
    let mut object = object(&vec![json!({}); 100_000]);
    strategy::for_kind(&kind).set_defaults(&mut object);
    let filled = object["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item.get("d").is_some());
    assert!((2..100).contains(&filled.count()));
}

#[test]
fn definitions_grow_as_their_text_does() {
    let crd = builtin()
        .kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
        .unwrap();
    let user = User::default();
    let at = StrategyContext {
        kind: crd,
        now: now(),
        user: &user,
    };
    for (name, schema) in [
        (
            "properties",
            (|count| json!({"type": "object", "properties": properties(count, &json!({"type": "string"}))}))
                as fn(usize) -> Value,
        ),
        ("required", |count| {
            let names: Vec<_> = (0..count).map(|number| json!(format!("f{number}"))).collect();
            json!({"type": "object", "required": names})
        }),
        ("enum", |count| {
            let names: Vec<_> = (0..count).map(|number| json!(format!("f{number}"))).collect();
            json!({"type": "string", "enum": names})
        }),
        ("anyOf", |count| {
            let branches: Vec<_> = (0..count).map(|number| json!({"minimum": number})).collect();
            json!({"type": "integer", "anyOf": branches})
        }),
        (
            "pattern",
            |count| json!({"type": "string", "pattern": "[{".repeat(count)}),
        ),
    ] {
        assert_grows_slowly(
            &format!("definition with {name}"),
            |count| {
                crd.ty
                    .normalize(&definition(&schema(count), &json!({})))
                    .unwrap()
                    .value
            },
            |mut object| {
                strategy::for_kind(crd).set_defaults(&mut object);
                bounded(strategy::create(&mut object, &at));
            },
        );
    }
}

#[test]
fn rejects_new_patterns_that_do_not_compile() {
    let crd = builtin()
        .kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
        .unwrap();
    let user = User::default();
    let at = StrategyContext {
        kind: crd,
        now: now(),
        user: &user,
    };
    let with = |pattern: &str| {
        let text = json!({"type": "string", "pattern": pattern});
        let mut object = crd.ty.normalize(&definition(&text, &json!({}))).unwrap().value;
        strategy::for_kind(crd).set_defaults(&mut object);
        object["metadata"]["uid"] = json!("u");
        object["metadata"]["resourceVersion"] = json!("1");
        object
    };
    let location = "spec.validation.openAPIV3Schema.properties[items].items.pattern";
    for (pattern, why) in [
        ("a(", "missing closing ): `a(`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        (&r"(\pL{500}){2}".repeat(8), "expression too large: `"),
    ] {
        let refused = strategy::create(&mut with(pattern), &at).unwrap_err();
        let cause = &refused.details.as_ref().unwrap().causes[0];
        assert_eq!(cause.field, location);
        let detail = format!("must be a valid regular expression, but isn't: error parsing regexp: {why}");
        assert!(cause.message.contains(&detail), "{}", cause.message);
        // What is stored stays.
        let stored = with(pattern);
        strategy::update(&mut stored.clone(), &stored, WrittenPart::Object, &at).unwrap();
        strategy::update(
            &mut with(&format!("{pattern}(")),
            &stored,
            WrittenPart::Object,
            &at,
        )
        .unwrap_err();
    }
    strategy::create(&mut with("^[a-z]+$"), &at).unwrap();
}
