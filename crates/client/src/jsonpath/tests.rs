//! Tests of template evaluation.

use serde_json::{Value, json};

use super::{JsonPath, JsonPathTemplate};

fn pods() -> Value {
    json!({"kind": "List", "items": [
        {"metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "web"}}, "spec": {"n": 1},
         "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]}},
        {"metadata": {"name": "b"}, "spec": {"n": 2}, "status": {"conditions": []}},
    ]})
}

fn evaluate(template: &str) -> String {
    JsonPathTemplate::parse(template).unwrap().fill(&pods())
}

#[test]
fn evaluates_paths() {
    for (template, text) in [
        ("{.kind}", "List"),
        ("{$.kind}", "List"),
        ("{.items[*].metadata.name}", "a b"),
        ("{.items[0].metadata.name}", "a"),
        ("{.items[-1].metadata.name}", "b"),
        ("{.items[-1:].metadata.name}", "b"),
        ("{.items[0:1].metadata.name}", "a"),
        ("{.items[0,1].spec.n}", "1 2"),
        ("{.items[5].metadata.name}", ""),
        ("{.items[0]['metadata']['name']}", "a"),
        ("{.items[0].metadata['name','labels'].x}", ""),
        (r"{.items[0].metadata.labels.app\.kubernetes\.io/name}", "web"),
        ("{.items[0].spec}", r#"{"n":1}"#),
        ("{..name}", "a b"),
        ("{.items[*].spec.*}", "1 2"),
        ("{.nothing.there}", ""),
        ("{.items[*]['metadata.name', 'spec.n']}", ""),
    ] {
        assert_eq!(evaluate(template), text, "{template}");
    }
}

#[test]
fn filters_select_items() {
    for (template, text) in [
        (
            r#"{.items[0].status.conditions[?(@.type=="Ready")].status}"#,
            "True",
        ),
        (
            r"{.items[*].status.conditions[?(@.type != 'Ready')].type}",
            "Other",
        ),
        ("{.items[?(@.spec.n>1)].metadata.name}", "b"),
        ("{.items[?(@.spec.n <= 1)].metadata.name}", "a"),
        ("{.items[?(@.metadata.labels)].metadata.name}", "a"),
        (r#"{.items[?(@.metadata.name=="b")].spec.n}"#, "2"),
    ] {
        assert_eq!(evaluate(template), text, "{template}");
    }
}

#[test]
fn ranges_repeat_their_content() {
    assert_eq!(
        evaluate(r#"{range .items[*]}{.metadata.name}{"\t"}{.spec.n}{"\n"}{end}done {$.kind}"#),
        "a\t1\nb\t2\ndone List"
    );
    assert_eq!(
        evaluate("{range .items[*]}{.metadata.name}:{range .status.conditions[*]}{.type},{end};{end}"),
        "a:Ready,Other,;b:;"
    );
}

#[test]
fn rejects_invalid_templates() {
    for template in [
        "{.items",
        "{range .items[*]}x",
        "{end}",
        "{.items[x]}",
        "{.items[0}",
        "{.a..}",
        r#"{"x}"#,
        "{foo}",
        "{}{",
    ] {
        let parsed = JsonPathTemplate::parse(template);
        assert!(parsed.is_err(), "{template}: {parsed:?}");
    }
}

#[test]
fn a_single_path_needs_no_braces() {
    let pods = pods();
    for text in [
        "{.items[1].metadata.name}",
        ".items[1].metadata.name",
        "items[1].metadata.name",
    ] {
        assert_eq!(
            JsonPath::parse(text).unwrap().first(&pods),
            Some(&json!("b")),
            "{text}"
        );
    }
    assert!(JsonPath::parse("{.a}{.b}").is_err());
}
