//! Tests of paths and templates.

use serde_json::{Value, json};

use super::{EvaluationError, JsonPath, Template};

fn found(path: &str) -> Vec<Value> {
    let object = json!({"a": {"b": 1, "c.d": 2}, "l": ["x", "y", "z"], "n": null,
        "conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True", "n": 3}]});
    let path = JsonPath::parse(path).unwrap();
    let found = path.find(&object).unwrap();
    found.into_iter().cloned().collect()
}

#[test]
fn finds_values() {
    assert_eq!(found(".a.b"), [json!(1)]);
    assert_eq!(found(r".a['c\.d']"), [json!(2)]);
    assert_eq!(found(r".a.c\.d"), [json!(2)]);
    assert_eq!(found(".l[0]"), [json!("x")]);
    assert_eq!(found(".l[-1]"), [json!("z")]);
    assert_eq!(found(".l[0:2]"), [json!("x"), json!("y")]);
    assert_eq!(found(".l[*]").len(), 3);
    assert_eq!(found(".l[0,2]"), [json!("x"), json!("z")]);
    assert_eq!(
        found(r#".conditions[?(@.type=="Ready")].status"#),
        [json!("True")]
    );
    assert_eq!(found(".conditions[?(@.n > 2)].type"), [json!("Ready")]);
    assert_eq!(found(".conditions[?(@.n)].type"), [json!("Ready")]);
    assert_eq!(found("..status"), [json!("False"), json!("True")]);
    assert!(found(".a.z.y").is_empty());
    assert!(found(".n[0]").is_empty());
}

#[test]
fn reports_values_that_do_not_fit() {
    let object = json!({"l": ["x"], "m": [{"a": 1}], "s": "x"});
    let error = |path: &str| JsonPath::parse(path).unwrap().find(&object).unwrap_err();
    assert_eq!(
        error(".l[7]").to_string(),
        "array index out of bounds: index 7, length 1"
    );
    assert_eq!(error(".s[0]"), EvaluationError::NotList);
    assert_eq!(error(".l[::0]"), EvaluationError::Step);
    assert_eq!(error(".m[?(@.a == 1.5)]"), EvaluationError::Incompatible);
    assert_eq!(
        error(".m[?(@.a = 1)]").to_string(),
        "unrecognized filter operator ="
    );
    assert_eq!(error("range").to_string(), "unrecognized identifier range");
}

#[test]
fn accepts_valid_paths() {
    for path in [
        "spec.validations[0].expression",
        ".spec.containers[*].name",
        ".items[?(@.a=='x')].b",
        ".a['b','c']",
        "..a",
        ".a[0:2]",
    ] {
        assert!(JsonPath::parse(path).is_ok(), "{path}");
    }
}

#[test]
fn reports_messages_of_client_go() {
    for (path, message) in [
        (".a[", "unterminated array"),
        (".a[b]", "invalid array index b"),
        (".a[\"b\"]", "invalid array index \"b\""),
        (".a[1:2:3:4]", "invalid array index 1:2:3:4"),
        ("#", "unrecognized character in action: U+0023 '#'"),
        ("\\", "unrecognized character in action: U+005C '\\'"),
        ("\u{301}", "unrecognized character in action: U+0301 '\u{301}'"),
        ("\u{200b}", "unrecognized character in action: U+200B"),
        (".a[?(@.b", "unterminated filter"),
        (".a[?(@.b)", "unclosed array expect ]"),
        ("'a", "unterminated quoted string"),
        ("....a", "invalid multiple recursive descent"),
        ("1.2.3", "cannot parse number 1.2.3"),
    ] {
        let error = JsonPath::parse(path).unwrap_err();
        assert_eq!(error.to_string(), message, "{path}");
    }
}

fn pods() -> Value {
    json!({"kind": "List", "items": [
        {"metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "web"}}, "spec": {"n": 1},
         "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]}},
        {"metadata": {"name": "b"}, "spec": {"n": 2}, "status": {"conditions": []}},
    ]})
}

fn evaluate(template: &str) -> String {
    Template::parse(template).unwrap().evaluate(&pods())
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
        ("{.items[*].status.conditions[0].type}", "Ready"),
        ("{.items[0]['metadata']['name']}", "a"),
        ("{.items[0].metadata['name','labels'].x}", ""),
        (r"{.items[0].metadata.labels.app\.kubernetes\.io/name}", "web"),
        ("{.items[0].spec}", r#"{"n":1}"#),
        ("{..name}", "a b"),
        ("{.items[*].spec.*}", "1 2"),
        ("{.nothing.there}", ""),
        ("{.items[*]['metadata.name', 'spec.n']}", "a b 1 2"),
        ("{'x'}{}y", "xy"),
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
        ("{.items[?(@.spec.n < 1.5)].metadata.name}", "a"),
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
        r#"{"x}"#,
        "{foo}",
        "{.a[?(@.b && @.c == 1)]}",
        "{.a[?(@.b => 1)]}",
        "{}{",
    ] {
        let parsed = Template::parse(template);
        assert!(parsed.is_err(), "{template}: {parsed:?}");
    }
}

#[test]
fn relaxed_paths_need_no_braces() {
    let pods = pods();
    for text in [
        "{.items[1].metadata.name}",
        ".items[1].metadata.name",
        "items[1].metadata.name",
    ] {
        assert_eq!(
            JsonPath::parse_relaxed(text).unwrap().find_lenient(&pods),
            [&json!("b")],
            "{text}"
        );
    }
    assert!(JsonPath::parse_relaxed("{.a}{.b}").is_err());
}

proptest::proptest! {
    #[test]
    fn parses_any_text_without_panic(text in "[a.,:0?()@'\"{}\\[\\]\\\\ =<>!*+\u{e9}-]{0,16}") {
        let object = json!({"a": [1, {"a": 2}]});
        if let Ok(path) = JsonPath::parse(&text) {
            let _ = path.find(&object);
        }
        if let Ok(template) = Template::parse(&text) {
            template.evaluate(&object);
        }
    }
}
