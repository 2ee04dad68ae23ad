//! Sets of fields as records hold them.

use std::str;

use k3_api::apply::{FieldSet, PathElement};
use serde_json::Value;

use super::{change, run::run};

const TOKENS: &[&str] = &[
    "\"f:a\":{",
    "\"k:{\\\"name\\\":\\\"a\\\"}\":{",
    "\"v:1\":{},",
    "\"i:0\":{},",
    "\".\":{},",
    "{}",
    "}",
    "{",
    ",",
    "\"",
    "\\",
    "f:",
    "k:",
    "v:",
    "i:",
    "x:",
    ":",
    "null",
    "[]",
    "1e400",
    "-1",
    "99999999999999999999",
];

#[test]
fn any_managed_fields_round_trip_or_are_rejected() {
    let samples = [
        r#"{"f:spec":{".":{},"f:a":{},"f:l":{"k:{\"name\":\"a\",\"port\":80}":{".":{},"f:x":{}},"v:\"s\"":{},"i:3":{}}}}"#,
        r#"{"f:metadata":{"f:labels":{"f:a":{}}}}"#,
        r#"k:{"name":"a"}"#,
        "i:5",
    ];
    let samples = samples.map(|text| text.as_bytes().to_vec()).to_vec();
    run(&change::bytes(samples, TOKENS), |bytes| {
        let Ok(text) = str::from_utf8(&bytes.0) else {
            return;
        };
        if let Ok(element) = PathElement::decode(text) {
            let mut written = String::new();
            element.encode(&mut written);
            assert_eq!(
                PathElement::decode(&written).expect("a step can be read"),
                element
            );
            drop(element.to_string());
        }
        let Ok(record) = serde_json::from_str::<Value>(text) else {
            return;
        };
        let Ok(set) = FieldSet::decode(&record) else {
            return;
        };
        let written = set.encode();
        assert_eq!(FieldSet::decode(&written).expect("a set can be read"), set);
        assert!(set.difference(&set).is_empty());
        assert_eq!(set.union(&set), set);
        assert_eq!(set.paths().len(), set.len());
    });
}
