use serde_json::json;

use super::*;

fn at() -> Path<'static> {
    Path::new("spec")
}

#[test]
fn every_kind_has_its_text() {
    let at = at();
    for (error, text) in [
        (
            Error::invalid(&at, "a\"b", "must be x"),
            r#"spec: Invalid value: "a\"b": must be x"#,
        ),
        (
            Error::invalid(&at, -1, "must be positive"),
            "spec: Invalid value: -1: must be positive",
        ),
        (
            Error::invalid(&at, json!({"b": 1, "a": "<"}), "no"),
            r#"spec: Invalid value: {"a":"\u003c","b":1}: no"#,
        ),
        (
            Error::invalid(&at, json!("<"), "no"),
            r#"spec: Invalid value: "<": no"#,
        ),
        (
            Error::invalid(&at, json!(2.5), "no"),
            "spec: Invalid value: 2.5: no",
        ),
        (
            Error::invalid(&at, json!(null), "no"),
            "spec: Invalid value: null: no",
        ),
        (
            Error::invalid(&at, BadValue::Omitted, "no"),
            "spec: Invalid value: no",
        ),
        (
            Error::type_invalid(&at, true.into_shown(), "no"),
            "spec: Invalid value: true: no",
        ),
        (Error::required(&at, ""), "spec: Required value"),
        (Error::required(&at, "say it"), "spec: Required value: say it"),
        (Error::duplicate(&at, "a"), r#"spec: Duplicate value: "a""#),
        (Error::not_found(&at, 7_i64), "spec: Not found: 7"),
        (
            Error::not_supported(&at, "c", ["b", "a"]),
            r#"spec: Unsupported value: "c": supported values: "b", "a""#,
        ),
        (
            Error::not_supported(&at, "c", [""; 0]),
            r#"spec: Unsupported value: "c""#,
        ),
        (Error::forbidden(&at, "not now"), "spec: Forbidden: not now"),
        (
            Error::too_long(&at, 63),
            "spec: Too long: may not be more than 63 bytes",
        ),
        (
            Error::too_long(&at, 1),
            "spec: Too long: may not be more than 1 byte",
        ),
        (
            Error::too_long_characters(&at, 2),
            "spec: Too long: may not be more than 2 characters",
        ),
        (
            Error::too_short(&at, "x", 1),
            "spec: Too short: must be at least 1 character",
        ),
        (
            Error::too_many(&at, Some(3), 2),
            "spec: Too many: 3: must have at most 2 items",
        ),
        (
            Error::too_many(&at, None, 1),
            "spec: Too many: must have at most 1 item",
        ),
        (
            Error::too_few(&at, 0, 1),
            "spec: Too few: 0: must have at least 1 item",
        ),
        (Error::internal(&at, "broke"), "spec: Internal error: broke"),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn a_list_of_errors_says_each_text_once() {
    let at = at();
    let (a, b) = (Error::required(&at, "a"), Error::required(&at, "b"));
    assert_eq!(aggregate([]), None);
    assert_eq!(aggregate([&a]).unwrap(), "spec: Required value: a");
    assert_eq!(aggregate([&a, &a]).unwrap(), "spec: Required value: a");
    assert_eq!(
        aggregate([&b, &a, &b]).unwrap(),
        "[spec: Required value: b, spec: Required value: a]"
    );
}

trait IntoShown {
    fn into_shown(self) -> BadValue;
}

impl IntoShown for bool {
    fn into_shown(self) -> BadValue {
        BadValue::Json(self.into())
    }
}
