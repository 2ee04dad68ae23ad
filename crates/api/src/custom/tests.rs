//! The rules of a version, claim by claim.

#![expect(
    clippy::needless_pass_by_value,
    reason = "claims read better without ampersands"
)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{CustomResourceStrategy, Definition, ObjectSource};
use crate::{
    apply::typed,
    kinds::builtin,
    strategy::{ErrorList, RestStrategy, StrategyContext, Tree, TreeMut, User},
    time::Time,
};

/// A definition whose one version has this schema of `spec`, and more besides.
pub(super) fn definition(spec_schema: Value, more: Value) -> Definition {
    let mut version = json!({"name": "v1", "served": true, "storage": true});
    version.set(
        "schema",
        json!({"openAPIV3Schema": {"type": "object", "properties": {
            "spec": spec_schema,
            "status": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}, "replicas": {"type": "integer"}}},
        }}}),
    );
    if let Value::Object(more) = more {
        for (name, value) in more {
            version.set(&name, value);
        }
    }
    let crd = json!({"spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [version]}});
    Definition::read(&crd).unwrap()
}

pub(super) fn object(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x"}, "spec": spec})
}

pub(super) fn at<R>(ask: impl FnOnce(&StrategyContext<'_>) -> R) -> R {
    let user = User::default();
    let kind = builtin().kind("", "v1", "ConfigMap").unwrap();
    let now = Time::parse("2024-01-01T00:00:00Z").unwrap();
    ask(&StrategyContext {
        kind,
        now,
        user: &user,
    })
}

pub(super) fn messages(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn wrong(schema: Value, spec: Value) -> Vec<String> {
    let definition = definition(schema, Value::Null);
    let mut errors = ErrorList::new();
    at(|at| {
        definition
            .storage()
            .strategy
            .validate(&object(spec), at, &mut errors);
    });
    messages(&errors)
}

fn wrong_update(schema: Value, new: Value, old: Value) -> Vec<String> {
    let definition = definition(schema, Value::Null);
    let mut errors = ErrorList::new();
    let new = object(new);
    let old = object(old);
    at(|at| {
        definition
            .storage()
            .strategy
            .validate_update(&new, &old, at, &mut errors);
    });
    messages(&errors)
}

fn fields(fields: Value) -> Value {
    json!({"type": "object", "properties": fields})
}

fn coerced(schema: Value, spec: Value) -> (Value, Vec<String>) {
    let definition = definition(schema, Value::Null);
    let mut object = object(spec);
    let rules = &definition.storage().strategy;
    let unknown = rules.coerce(&mut object, ObjectSource::Request).unwrap();
    rules.set_defaults(&mut object);
    (object.at("spec").clone(), unknown)
}

#[test]
fn reports_a_wrong_type_with_both_types() {
    let schema = fields(
        json!({"i": {"type": "integer"}, "s": {"type": "string"}, "e": {"x-kubernetes-int-or-string": true},
        "d": {"type": "string", "format": "date-time"}, "n": {"type": "string", "nullable": true}}),
    );
    assert_eq!(
        wrong(
            schema.clone(),
            json!({"i": "x", "s": null, "e": true, "d": 5, "n": null})
        ),
        [
            "spec.d: Invalid value: \"int64\": spec.d in body must be of type date-time: \"int64\"",
            "spec.e: Invalid value: \"boolean\": spec.e in body must be of type integer,string: \"boolean\"",
            "spec.i: Invalid value: \"string\": spec.i in body must be of type integer: \"string\"",
            "spec.s: Invalid value: \"null\": spec.s in body must be of type string: \"null\"",
        ]
    );
    assert_eq!(
        wrong(
            schema.clone(),
            json!({"i": 4.0, "e": "50%", "d": "2020-01-01T00:00:00Z"})
        ),
        [] as [&str; 0]
    );
    assert_eq!(
        wrong(schema, json!({"d": "yesterday"})),
        ["spec.d: Invalid value: \"yesterday\": spec.d in body must be of type date-time: \"yesterday\""]
    );
}

#[test]
fn bounds_hold() {
    let schema = fields(json!({
        "i": {"type": "integer", "minimum": 1, "maximum": 10, "multipleOf": 2},
        "f": {"type": "number", "minimum": 0.5, "exclusiveMinimum": true},
        "w": {"type": "integer", "format": "int32"},
        "p": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
        "e": {"type": "string", "enum": ["A", "B"]},
        "l": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
        "o": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "integer"}},
    }));
    let one = |spec: Value| wrong(schema.clone(), spec).join("; ");
    assert_eq!(
        one(json!({"i": 12})),
        "spec.i: Invalid value: 12: spec.i in body should be less than or equal to 10"
    );
    assert_eq!(
        one(json!({"i": 3})),
        "spec.i: Invalid value: 3: spec.i in body should be a multiple of 2"
    );
    assert_eq!(
        one(json!({"f": 0.5})),
        "spec.f: Invalid value: 0.5: spec.f in body should be greater than 0.5"
    );
    assert_eq!(
        one(json!({"w": 3_000_000_000_i64})),
        "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.w"
    );
    assert_eq!(
        one(json!({"p": "A"})),
        "spec.p: Invalid value: \"A\": spec.p in body should be at least 2 chars long"
    );
    assert_eq!(
        one(json!({"p": "ABC"})),
        "spec.p: Invalid value: \"ABC\": spec.p in body should match '^[a-z]+$'"
    );
    assert_eq!(
        one(json!({"p": "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}"})),
        "spec.p: Too long: may not be more than 4 bytes"
    );
    assert_eq!(
        one(json!({"e": "C"})),
        "spec.e: Unsupported value: \"C\": supported values: \"A\", \"B\""
    );
    assert_eq!(
        one(json!({"l": []})),
        "spec.l: Invalid value: 0: spec.l in body should have at least 1 items"
    );
    assert_eq!(
        one(json!({"l": ["a", "b", "c"]})),
        "spec.l: Too many: 3: must have at most 2 items"
    );
    assert_eq!(
        one(json!({"o": {"a": "x"}})),
        "spec.o.a: Invalid value: \"string\": spec.o.a in body must be of type integer: \"string\""
    );
}

#[test]
fn what_must_be_there_is_asked_for() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}});
    assert_eq!(wrong(schema, json!({})), ["spec.a: Required value"]);
}

#[test]
fn reports_the_nearest_of_several_schemas() {
    let schema = fields(json!({
        "any": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"minLength": 3}}}]},
        "one": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "not": {"type": "string", "not": {"pattern": "^x"}},
    }));
    assert_eq!(
        wrong(schema.clone(), json!({"any": {}})),
        [
            "<nil>: Invalid value: \"\": \"spec.any\" must validate at least one schema (anyOf)",
            "spec.any.a: Required value",
        ]
    );
    assert_eq!(
        wrong(schema.clone(), json!({"one": {"a": "1", "b": "2"}})),
        [
            "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives"
        ]
    );
    assert_eq!(
        wrong(schema, json!({"not": "xyz"})),
        ["<nil>: Invalid value: \"\": \"spec.not\" must not validate the schema (not)"]
    );
}

#[test]
fn ratcheting_skips_unchanged_values() {
    let schema = fields(
        json!({"a": {"type": "string", "enum": ["good"]}, "b": {"type": "string"},
        "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}}},
        "l": {"type": "array", "items": {"type": "integer", "maximum": 1}}}),
    );
    let old = json!({"a": "bad", "b": "1", "m": [{"k": "x", "v": 9}, {"k": "y", "v": 8}], "l": [5, 0]});
    let with = |name: &str, value: Value| {
        let mut new = old.clone();
        new.set(name, value);
        wrong_update(schema.clone(), new, old.clone())
    };
    assert_eq!(with("b", json!("2")), [] as [&str; 0]);
    assert_eq!(
        with("a", json!("worse")),
        ["spec.a: Unsupported value: \"worse\": supported values: \"good\""]
    );
    assert_eq!(
        with(
            "m",
            json!([{"k": "y", "v": 8}, {"k": "x", "v": 9}, {"k": "z", "v": 1}])
        ),
        [] as [&str; 0]
    );
    assert_eq!(
        with("m", json!([{"k": "y", "v": 7}])),
        ["spec.m[0].v: Invalid value: 7: spec.m[0].v in body should be less than or equal to 1"]
    );
    // The items of a plain list cannot be distinguished.
    assert_eq!(with("l", json!([5])).len(), 1);
}

#[test]
fn items_of_sets_and_maps_differ() {
    let schema = fields(json!({
        "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
            "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}},
    }));
    let spec = json!({"s": ["x", "y", "x", "x"], "m": [{"a": "1", "b": 1}, {"a": "1"}, {"a": "1", "b": 1}]});
    assert_eq!(
        wrong(schema, spec),
        [
            "spec.m[2]: Duplicate value: {\"a\":\"1\",\"b\":1}",
            "spec.s[2]: Duplicate value: \"x\"",
        ]
    );
}

#[test]
fn prunes_and_reports_unknown_fields() {
    let schema = fields(json!({
        "a": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"k": {"type": "object", "properties": {"z": {"type": "string"}}}}},
        "b": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}},
    }));
    let spec = json!({"a": {"free": 1, "k": {"z": "1", "dropped": 2}}, "b": [{"x": "1", "y": 2}], "c": 3});
    let (pruned, unknown) = coerced(schema, spec);
    assert_eq!(
        pruned,
        json!({"a": {"free": 1, "k": {"z": "1"}}, "b": [{"x": "1"}]})
    );
    assert_eq!(unknown, ["spec.a.k.dropped", "spec.b[0].y", "spec.c"]);
}

#[test]
fn coerces_metadata_of_embedded_resources() {
    let schema = fields(
        json!({"t": {"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true}}),
    );
    let spec =
        json!({"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "bogus": 1}, "x": 1}});
    let (settled, unknown) = coerced(schema.clone(), spec);
    assert_eq!(
        settled,
        json!({"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "x": 1}})
    );
    assert_eq!(unknown, ["spec.t.metadata.bogus"]);
    assert_eq!(
        wrong(
            schema,
            json!({"t": {"kind": "a_b", "metadata": {"labels": {"a b": "c"}}}})
        )
        .len(),
        3
    );
}

#[test]
fn metadata_of_another_type_is_refused_in_a_request_and_dropped_from_the_store() {
    let definition = definition(fields(json!({})), Value::Null);
    let rules = &definition.storage().strategy;
    let mut bad = object(json!({}));
    bad.ensure_object("metadata").set("labels", "x");
    let error = rules.coerce(&mut bad.clone(), ObjectSource::Request).unwrap_err();
    assert_eq!(
        error.to_string(),
        "json: cannot unmarshal string into Go struct field ObjectMeta.labels of type map[string]string"
    );
    rules.coerce(&mut bad, ObjectSource::Storage).unwrap();
    assert_eq!(bad.at("metadata"), &json!({"name": "x", "generation": 1}));
}

#[test]
fn defaults_fill_what_is_left_out_wherever_its_holder_is() {
    let schema = fields(json!({
        "a": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 3}}},
        "l": {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "string", "default": "x"}}}},
        "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"d": {"type": "boolean", "default": true}}}},
        "n": {"type": "string", "default": "y"},
        "o": {"type": "string"}, "p": {"type": "string", "nullable": true},
    }));
    let (filled, _) = coerced(
        schema,
        json!({"l": [{}], "m": {"k": {}}, "n": null, "o": null, "p": null}),
    );
    assert_eq!(
        filled,
        json!({"a": {"b": 3}, "l": [{"c": "x"}], "m": {"k": {"d": true}}, "n": "y", "p": null})
    );
}

#[test]
fn a_status_with_a_path_of_its_own_is_written_there_alone() {
    let definition = definition(
        fields(json!({"a": {"type": "integer"}})),
        json!({"subresources": {"status": {}}}),
    );
    let rules = &definition.storage().strategy;
    let mut new = object(json!({"a": 1}));
    new.set("status", json!({"n": 1}));
    at(|at| rules.prepare_for_create(&mut new, at));
    assert!(!new.has("status"));
    let mut old = object(json!({"a": 1}));
    old.set("status", json!({"n": 1}));
    let mut new = object(json!({"a": 2}));
    new.ensure_object("metadata").set("labels", json!({"l": "1"}));
    new.set("status", json!({"n": 9}));
    let mut status = new.clone();
    at(|at| rules.prepare_for_status_update(&mut status, &old, at));
    assert_eq!(
        (status.at("spec"), status.at("status")),
        (&json!({"a": 1}), &json!({"n": 9}))
    );
    assert!(!status.at("metadata").has("labels"));
    let mut errors = ErrorList::new();
    at(|at| rules.validate_status_update(&status, &old, at, &mut errors));
    assert_eq!(
        messages(&errors),
        ["status.n: Invalid value: 9: n in body should be less than or equal to 5"]
    );
    at(|at| rules.prepare_for_update(&mut new, &old, at));
    assert_eq!(new.at("status"), &json!({"n": 1}));
    assert!(rules.raises_generation(&new, &old) && !rules.raises_generation(&old, &old));
}

#[test]
fn reports_a_wrong_kind_alone() {
    let definition = definition(fields(json!({})), Value::Null);
    let mut errors = ErrorList::new();
    let mut gadget = object(json!({}));
    gadget.set("kind", "Gadget");
    at(|at| definition.storage().strategy.validate(&gadget, at, &mut errors));
    assert_eq!(
        messages(&errors),
        ["kind: Invalid value: \"Gadget\": must be Widget"]
    );
}

fn scaled() -> Definition {
    let paths = json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector"}});
    definition(
        fields(json!({"replicas": {"type": "integer"}})),
        json!({"subresources": paths}),
    )
}

#[test]
fn a_scale_is_found_and_set_by_its_paths() {
    let definition = scaled();
    let version = definition.storage();
    let scale = version.scale.as_ref().unwrap();
    let mut widget = object(json!({"replicas": 2}));
    widget.set("status", json!({"replicas": 1, "selector": "a=b"}));
    let mut shown = scale.read(&widget).unwrap();
    assert_eq!(shown.at("spec"), &json!({"replicas": 2}));
    assert_eq!(shown.at("status"), &json!({"replicas": 1, "selector": "a=b"}));
    shown.ensure_object("spec").set("replicas", -1);
    scale.write(&mut widget, &shown).unwrap();
    let mut errors = ErrorList::new();
    at(|at| version.strategy.validate(&widget, at, &mut errors));
    assert_eq!(
        messages(&errors),
        [".spec.replicas: Invalid value: -1: should be a non-negative integer"]
    );
    let bare = object(json!({}));
    assert_eq!(
        scale.read(&bare).unwrap_err().message,
        "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist"
    );
    let unset = scale.before(&bare).unwrap();
    assert_eq!(
        scale.write(&mut widget, &unset).unwrap_err().message,
        "the spec replicas field \".spec.replicas\" cannot be empty"
    );
    let odd = object(json!("text"));
    assert_eq!(
        scale.read(&odd).unwrap_err().message,
        ".spec.replicas accessor error: text is of the type string, expected map[string]interface{}"
    );
    assert_eq!(
        scale.write(&mut odd.clone(), &shown).unwrap_err().message,
        "value cannot be set because .spec is not a map[string]interface{}"
    );
}

#[test]
fn tables_show_what_columns_name() {
    let columns = json!([
        {"name": "N", "type": "integer", "jsonPath": ".spec.n"},
        {"name": "When", "type": "date", "jsonPath": ".spec.d"},
        {"name": "O", "type": "string", "jsonPath": ".spec.o", "priority": 1, "description": "words"},
        {"name": "L", "type": "string", "jsonPath": ".spec.l[*]"},
        {"name": "F", "type": "number", "jsonPath": ".spec.f"},
        {"name": "Bad", "type": "integer", "jsonPath": ".spec.o"},
    ]);
    let definition = definition(fields(json!({})), json!({"additionalPrinterColumns": columns}));
    let rules = &definition.storage().strategy;
    let widget =
        object(json!({"n": 3.7, "d": "2023-12-31T00:00:00Z", "o": {"k": "<"}, "l": ["x", "y"], "f": 2}));
    let now = Time::parse("2024-01-01T00:00:00Z").unwrap();
    assert_eq!(
        rules.row(&widget, now).cells,
        [
            json!("x"),
            json!(3),
            json!("24h"),
            json!("{\"k\":\"\\u003c\"}"),
            json!("x"),
            json!(2.0),
            json!(null)
        ]
    );
    assert_eq!(rules.columns().len(), 7);
    assert_eq!(
        rules.row(&object(json!({})), now).cells[1..],
        [const { Value::Null }; 6]
    );
}

#[test]
fn finalizers_without_a_domain_are_warned_of_once() {
    let definition = definition(fields(json!({})), Value::Null);
    let rules: &CustomResourceStrategy = &definition.storage().strategy;
    let mut new = object(json!({}));
    new.ensure_object("metadata")
        .set("finalizers", json!(["a", "b.c", "d.e/f", "orphan"]));
    assert_eq!(
        rules.warnings(&new, None),
        [
            "metadata.finalizers: \"a\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers",
            "metadata.finalizers: \"b.c\": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers",
        ]
    );
    assert!(rules.warnings(&new, Some(&new)).is_empty());
}

#[test]
fn a_deprecated_version_names_the_one_to_use() {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = |name: &str, deprecated: bool| json!({"name": name, "served": true, "storage": name == "v1", "deprecated": deprecated, "schema": schema});
    let crd = json!({"spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "ws", "kind": "W"},
        "versions": [version("v1alpha1", true), version("v1beta1", false), version("v1", false)]}});
    let definition = Definition::read(&crd).unwrap();
    assert_eq!(
        definition.version("v1alpha1").unwrap().deprecation.as_deref(),
        Some("example.com/v1alpha1 W is deprecated; use example.com/v1 W")
    );
}

#[test]
fn apply_merges_by_list_type_of_the_schema() {
    let schema = fields(json!({
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "granular": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "either": {"x-kubernetes-int-or-string": true},
        "inner": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }));
    let definition = definition(schema, Value::Null);
    let live = object(
        json!({"map": [{"k": "a", "v": 1}], "set": ["x"], "plain": ["x"], "atomic": {"a": "1"},
        "granular": {"a": "1"}, "free": {"a": {"b": 1}}, "either": 1, "inner": {"metadata": {"finalizers": ["f"]}}}),
    );
    let applied = object(
        json!({"map": [{"k": "b", "v": 2}, {"k": "a", "v": 3}], "set": ["y"], "plain": ["y"],
        "atomic": {"b": "2"}, "granular": {"b": "2"}, "free": {"a": {"c": 2}}, "either": "50%",
        "inner": {"metadata": {"finalizers": ["g"]}}}),
    );
    let merged = typed::merge(&live, &applied, definition.storage().strategy.typed()).unwrap();
    let spec = merged.at("spec");
    assert_eq!(spec.items("map").len(), 2);
    assert_eq!(spec.items("set").len(), 2);
    assert_eq!(spec.items("plain"), [json!("y")]);
    assert_eq!(spec.at("atomic"), &json!({"b": "2"}));
    assert_eq!(spec.at("granular"), &json!({"a": "1", "b": "2"}));
    assert_eq!(spec.at("free"), &json!({"a": {"b": 1, "c": 2}}));
    assert_eq!(spec.at("either"), &json!("50%"));
    assert_eq!(spec.at_path("inner.metadata").items("finalizers").len(), 2);
}

#[test]
fn a_rule_about_what_did_not_change_is_a_warning() {
    let schema = fields(json!({
        "a": {"type": "string", "x-kubernetes-validations": [{"rule": "self == 'good'"}]}, "b": {"type": "string"},
        "c": {"type": "integer", "x-kubernetes-validations": [
            {"rule": "self >= oldSelf.orValue(3)", "optionalOldSelf": true, "messageExpression": "'not ' + string(self)"}]},
    }));
    let old = json!({"a": "bad", "b": "1"});
    assert_eq!(
        wrong_update(schema.clone(), json!({"a": "bad", "b": "2"}), old.clone()),
        [] as [&str; 0]
    );
    assert_eq!(
        wrong_update(schema.clone(), json!({"a": "worse", "b": "1"}), old.clone()),
        ["spec.a: Invalid value: \"worse\": failed rule: self == 'good'"]
    );
    assert_eq!(
        wrong_update(schema.clone(), json!({"c": 2}), old.clone()),
        ["spec.c: Invalid value: 2: not 2"]
    );
    let definition = definition(schema, Value::Null);
    let new = object(json!({"a": "bad", "b": "2"}));
    let old = object(old);
    assert_eq!(
        definition.storage().strategy.warnings(&new, Some(&old)),
        ["spec.a: Invalid value: \"bad\": failed rule: self == 'good'"]
    );
}

#[test]
fn rules_are_not_asked_of_what_cannot_be_read() {
    let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.a > 1"}],
        "properties": {"a": {"type": "integer"}}});
    assert_eq!(
        wrong(schema.clone(), json!({"a": "x"})),
        [
            "spec.a: Invalid value: \"string\": spec.a in body must be of type integer: \"string\"",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ]
    );
    assert_eq!(
        wrong(schema, json!({})),
        ["spec: Invalid value: \"object\": no such key: a evaluating rule: self.a > 1"]
    );
}

#[test]
fn rules_have_reasons_and_fields() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}},
    "x-kubernetes-validations": [
        {"rule": "has(self.a)", "reason": "FieldValueRequired", "message": "a is needed", "fieldPath": ".a.b"},
        {"rule": "has(self.a)", "reason": "FieldValueForbidden", "message": " not without a "},
    ]});
    assert_eq!(
        wrong(schema, json!({})),
        [
            "spec.a.b: Required value: a is needed",
            "spec: Forbidden: not without a"
        ]
    );
}

/// Any JSON, with the names the schema below knows among others.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f32>().prop_map(|number| json!(f64::from(number))),
        "[a-z0-9:.T-]{0,6}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("apiVersion"),
        Just("kind"),
        Just("metadata"),
        Just("name"),
        Just("map"),
        Just("set"),
        Just("any"),
        Just("inner"),
        Just("x"),
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        let fields = prop::collection::btree_map(name.clone(), inner.clone(), 0..5);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #[test]
    fn validates_arbitrary_objects_without_panic(new in any_value(), old in any_value()) {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "name": {"type": "string", "format": "date-time", "default": "2020-01-01T00:00:00Z"},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "maxItems": 5,
                "items": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}},
                "x-kubernetes-validations": [{"rule": "self.all(i, i.name != 'x')"}]},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"x-kubernetes-int-or-string": true}},
            "any": {"oneOf": [{"required": ["x"]}, {"minimum": 3}], "not": {"minLength": 4}, "x-kubernetes-preserve-unknown-fields": true},
            "inner": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        }});
        let definition = definition(schema, json!({"subresources": {"status": {}, "scale": {
            "specReplicasPath": ".spec.x", "statusReplicasPath": ".status.x.name"}}}));
        let rules = &definition.storage().strategy;
        let mut new = object(new);
        let mut old = object(old);
        for object in [&mut new, &mut old] {
            if rules.coerce(object, ObjectSource::Request).is_ok() {
                // What was brought into form is in form.
                let mut again = object.clone();
                prop_assert_eq!(rules.coerce(&mut again, ObjectSource::Request), Ok(Vec::new()));
                prop_assert_eq!(&again, &*object);
            }
            rules.set_defaults(object);
        }
        at(|at| {
            rules.validate(&new, at, &mut ErrorList::new());
            rules.validate_update(&new, &old, at, &mut ErrorList::new());
            let mut unchanged = ErrorList::new();
            rules.validate_update(&old.clone(), &old, at, &mut unchanged);
            rules.validate_status_update(&new, &old, at, &mut ErrorList::new());
            rules.row(&new, at.now);
        });
        if let Some(scale) = &definition.storage().scale {
            let _ = scale.read(&new);
        }
    }
}
