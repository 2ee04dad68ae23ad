use super::*;
use crate::schema::samples::object;
use crate::schema::{StructRef, schema};
use proptest::prelude::*;
use serde_json::{Value, json};

fn of(package: &str, name: &str) -> StructRef {
    schema().get(package, "v1", name).unwrap()
}

fn read(package: &str, name: &str, body: &str) -> DecodedBody {
    json(body.as_bytes(), of(package, name)).unwrap()
}

fn refused(package: &str, name: &str, body: &str) -> String {
    json(body.as_bytes(), of(package, name)).unwrap_err().to_string()
}

fn strict_errors(package: &str, name: &str, body: &str) -> Vec<String> {
    read(package, name, body).strict_errors.warnings().collect()
}

#[test]
fn reports_unknown_fields_in_text_order() {
    let body = r#"{"metadata":{"Labels":{"a":"b"}},"Data":{},"data":{"a":"b"}}"#;
    let decoded = read("core", "ConfigMap", body);
    let reported: Vec<String> = decoded.strict_errors.warnings().collect();
    assert_eq!(
        reported,
        [r#"unknown field "metadata.Labels""#, r#"unknown field "Data""#]
    );
    assert_eq!(decoded.value, json!({"metadata": {}, "data": {"a": "b"}}));
    let reported = strict_errors(
        "core",
        "Pod",
        r#"{"spec":{"containers":[{},{"ports":[{"containerport":80}]}]}}"#,
    );
    assert_eq!(
        reported,
        [r#"unknown field "spec.containers[1].ports[0].containerport""#]
    );
}

#[test]
fn reports_duplicates_and_keeps_the_last() {
    let body = r#"{"spec":{"containers":[{"name":"c","image":"a","image":"b","bogus":1}],"containers":[{"name":"d","image":"a"}]}}"#;
    let decoded = read("core", "Pod", body);
    let reported = r#"strict decoding error: duplicate field "spec.containers[0].image", unknown field "spec.containers[0].bogus", duplicate field "spec.containers""#;
    assert_eq!(decoded.strict_errors.strict_error().unwrap(), reported);
    assert_eq!(decoded.value["spec"]["containers"][0]["name"], "d");
    let decoded = read("core", "ConfigMap", r#"{"data":{"a":"1","a":"2"}}"#);
    assert_eq!(
        decoded.strict_errors.warnings().collect::<Vec<_>>(),
        [r#"duplicate field "data.a""#]
    );
    assert_eq!(decoded.value["data"], json!({"a": "2"}));
}

#[test]
fn of_two_objects_of_one_name_both_count() {
    let decoded = read(
        "core",
        "Pod",
        r#"{"spec":{"nodeName":"a"},"spec":{"hostname":"b"}}"#,
    );
    assert_eq!(
        decoded.value["spec"],
        json!({"nodeName": "a", "hostname": "b", "containers": null})
    );
}

#[test]
fn rejects_wrong_types_with_messages_of_go() {
    let cases = [
        (
            r#"{"spec":{"replicas":"x"}}"#,
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            r#"{"spec":{"replicas":3000000000}}"#,
            "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            r#"{"spec":{"replicas":1.5}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            r#"{"metadata":{"name":5}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            r#"{"metadata":{"labels":"x"}}"#,
            "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            r#"{"spec":{"template":{"spec":{"containers":{}}}}}"#,
            "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
        ),
        (
            r#"{"spec":{"template":{"spec":{"containers":[5]}}}}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.template.spec.containers of type v1.Container",
        ),
        (
            "[]",
            "json: cannot unmarshal array into Go value of type v1.Deployment",
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(refused("apps", "Deployment", body), expected, "{body}");
    }
    let expected = "json: cannot unmarshal number into Go struct field ConfigMap.data of type string";
    assert_eq!(refused("core", "ConfigMap", r#"{"data":{"a":1}}"#), expected);
    let expected = "illegal base64 data at input byte 0";
    assert_eq!(
        refused("core", "ConfigMap", r#"{"binaryData":{"a":"%%%"}}"#),
        expected
    );
}

#[test]
fn reports_invalid_times_before_wrong_types() {
    let body = r#"{"data":{"a":1},"metadata":{"creationTimestamp":"x"}}"#;
    let expected = r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#;
    assert_eq!(refused("core", "ConfigMap", body), expected);
}

#[test]
fn amounts_may_be_numbers_but_must_look_like_amounts() {
    let limits = |amount: &str| format!(r#"{{"limits":{{"cpu":{amount}}}}}"#);
    for (amount, read_as) in [
        ("1", "1"),
        ("\"100m\"", "100m"),
        ("\" 2Gi \"", "2Gi"),
        ("1e3", "1e3"),
    ] {
        let decoded = read("core", "ResourceRequirements", &limits(amount));
        assert_eq!(decoded.value["limits"]["cpu"], read_as);
    }
    for amount in ["\"x\"", "\"\"", "\"1 Gi\"", "true", "{}"] {
        let expected =
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        assert_eq!(refused("core", "ResourceRequirements", &limits(amount)), expected);
    }
}

#[test]
fn reports_syntax_errors_before_wrong_types() {
    let cases = [
        ("nope", "invalid character 'o' in literal null (expecting 'u')"),
        ("", "unexpected end of JSON input"),
        (
            r#"{"data":{"a":1},}"#,
            "invalid character '}' looking for beginning of object key string",
        ),
        (
            r#"{"a":}"#,
            "invalid character '}' looking for beginning of value",
        ),
        (r#"{"a" 1}"#, "invalid character '1' after object key"),
        (
            r#"{"a":1 "b"}"#,
            "invalid character '\"' after object key:value pair",
        ),
        (r#"{"a":[1 2]}"#, "invalid character '2' after array element"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("{\"a\":\"\n\"}", r"invalid character '\n' in string literal"),
        (r#"{"a":"\x"}"#, "invalid character 'x' in string escape code"),
        (
            r#"{"a":"\u00g0"}"#,
            r"invalid character 'g' in \u hexadecimal character escape",
        ),
        (r#"{"a":-x}"#, "invalid character 'x' in numeric literal"),
        (r#"{"a":01}"#, "invalid character '1' after object key:value pair"),
        (
            r#"{"a":1.}"#,
            "invalid character '}' after decimal point in numeric literal",
        ),
        (
            r#"{"a":1e}"#,
            "invalid character '}' in exponent of numeric literal",
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(refused("core", "ConfigMap", body), expected, "{body}");
        assert_eq!(
            type_of(body.as_bytes()).unwrap_err().to_string(),
            expected,
            "{body}"
        );
        assert_eq!(
            untyped(body.as_bytes()).unwrap_err().to_string(),
            expected,
            "{body}"
        );
    }
}

#[test]
fn finds_type_meta_anywhere_in_the_body() {
    let found = type_of(br#"{"spec":{"kind":"no"},"kind":"Pod","apiVersion":"v1"}"#).unwrap();
    assert_eq!(
        found,
        TypeMeta {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned()
        }
    );
    assert_eq!(type_of(b"null").unwrap(), TypeMeta::default());
    let expected = r#"json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    assert_eq!(type_of(b"[]").unwrap_err().to_string(), expected);
    let expected = "json: cannot unmarshal number into Go struct field .kind of type string";
    assert_eq!(type_of(br#"{"kind":5}"#).unwrap_err().to_string(), expected);
}

#[test]
fn omits_empty_fields_and_writes_required_zero_values() {
    let body = r#"{
        "metadata": {"name": "x", "creationTimestamp": null, "labels": {}, "annotations": null, "generation": 0},
        "spec": {"hostNetwork": false, "hostUsers": false, "volumes": [], "priority": 0,
                 "terminationGracePeriodSeconds": null, "containers": [{"name": "c", "command": [], "env": [{"name": "e", "value": ""}]}, null]}
    }"#;
    let decoded = read("core", "Pod", body);
    let expected = json!({
        "metadata": {"name": "x"},
        "spec": {
            "hostUsers": false,
            "priority": 0,
            "containers": [{"name": "c", "env": [{"name": "e"}], "resources": {}}, {"name": "", "resources": {}}],
        },
        "status": {},
    });
    assert_eq!(decoded.value, expected);
    assert!(decoded.strict_errors.is_empty());
}

#[test]
fn lists_that_always_speak_keep_the_difference_between_none_and_empty() {
    let role = |rules: &str| read("rbac", "ClusterRole", rules).value;
    assert_eq!(role("{}")["rules"], Value::Null);
    assert_eq!(role(r#"{"rules":null}"#)["rules"], Value::Null);
    assert_eq!(role(r#"{"rules":[]}"#)["rules"], json!([]));
}

#[test]
fn null_within_maps_is_the_zero_value() {
    assert_eq!(
        read("core", "ConfigMap", r#"{"data":{"a":null}}"#).value["data"],
        json!({"a": ""})
    );
}

#[test]
fn normalizes_times_to_utc_and_bytes_to_one_line() {
    let value = read("core", "Secret", "{\"metadata\":{\"creationTimestamp\":\"2024-01-01T02:00:00.5+02:00\"},\"data\":{\"a\":\"Zm9v\\nYmFy\"}}").value;
    assert_eq!(value["metadata"]["creationTimestamp"], "2024-01-01T00:00:00Z");
    assert_eq!(value["data"]["a"], "Zm9vYmFy");
    let zero = read(
        "core",
        "Secret",
        r#"{"metadata":{"creationTimestamp":"0001-01-01T00:00:00Z"}}"#,
    )
    .value;
    assert_eq!(zero["metadata"], json!({}));
}

#[test]
fn inline_structs_and_numbers_or_text_are_read() {
    let service = read(
        "core",
        "Service",
        r#"{"spec":{"ports":[{"port":80,"targetPort":"web"},{"port":81}]}}"#,
    );
    let ports = json!([{"port": 80, "targetPort": "web"}, {"port": 81, "targetPort": 0}]);
    assert_eq!(service.value["spec"]["ports"], ports);
    let body = r#"{"spec":{"volumes":[{"name":"v","emptyDir":{}}],"containers":[]}}"#;
    assert_eq!(
        read("core", "Pod", body).value["spec"]["volumes"],
        json!([{"name": "v", "emptyDir": {}}])
    );
}

#[test]
fn raw_parts_keep_what_is_in_them() {
    let body = r#"{"data":{"x":null,"y":[1,1.0,1.5,18446744073709551615]},"revision":1}"#;
    let value = read("apps", "ControllerRevision", body).value;
    assert_eq!(
        value["data"],
        json!({"x": null, "y": [1, 1, 1.5, 18_446_744_073_709_551_615.0]})
    );
}

#[test]
fn schemas_may_be_something_else() {
    let body = r#"{"additionalProperties":true,"items":{"type":"string","nope":1},"dependencies":{"a":["b"]},"not":{"nope":1}}"#;
    let decoded = read("apiextensions", "JSONSchemaProps", body);
    let expected = json!({"additionalProperties": true, "items": {"type": "string"}, "dependencies": {"a": ["b"]}, "not": {}});
    assert_eq!(decoded.value, expected);
    assert_eq!(
        decoded.strict_errors.warnings().collect::<Vec<_>>(),
        [r#"unknown field "not.nope""#]
    );
}

#[test]
fn text_that_is_not_utf8_is_replaced() {
    let decoded = json(
        b"{\"data\":{\"a\":\"x\xff\",\"b\":\"\\ud800\",\"c\":\"\\ud83e\\udd80\"}}",
        of("core", "ConfigMap"),
    );
    assert_eq!(
        decoded.unwrap().value["data"],
        json!({"a": "x\u{fffd}", "b": "\u{fffd}", "c": "\u{1f980}"})
    );
}

#[test]
fn depth_has_an_end() {
    let deep = "[".repeat(100_000);
    assert_eq!(
        untyped(deep.as_bytes()).unwrap_err().to_string(),
        "exceeded max depth"
    );
    assert_eq!(
        refused("core", "ConfigMap", &format!("{{\"x\":{deep}")),
        "exceeded max depth"
    );
    assert!(yaml_to_json(deep.as_bytes()).is_err());
}

#[test]
fn what_is_as_deep_as_it_may_be_is_read() {
    let nested = |depth: usize| format!("{}{{}}{}", "{\"not\":".repeat(depth), "}".repeat(depth));
    let ty = of("apiextensions", "JSONSchemaProps");
    let decoded = json(nested(399).as_bytes(), ty).unwrap();
    assert_eq!(normalize(&decoded.value, ty).unwrap().value, decoded.value);
    assert!(json(nested(400).as_bytes(), ty).is_err());
    assert!(untyped(nested(399).as_bytes()).is_ok());
}

#[test]
fn few_bytes_do_not_fill_the_memory() {
    let body = format!(r#"{{"spec":{{"containers":[{}{{}}]}}}}"#, "{},".repeat(900_000));
    assert_eq!(
        json(body.as_bytes(), of("core", "Pod")),
        Err(DecodeError::TooMany)
    );
    let body = format!(r#"{{"spec":{{"containers":[{}null]}}}}"#, "null,".repeat(600_000));
    assert_eq!(
        json(body.as_bytes(), of("core", "Pod")),
        Err(DecodeError::TooMany)
    );
}

#[test]
fn reports_at_most_a_hundred_strict_errors() {
    let fields: Vec<String> = (0..10_000).map(|i| format!("\"x{i}\":1")).collect();
    let decoded = read("core", "ConfigMap", &format!("{{{}}}", fields.join(",")));
    assert_eq!(decoded.strict_errors.warnings().count(), 100);
}

#[test]
fn yaml_means_what_json_means() {
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  a: '1'\n  b: |\n    multi\n    line\n";
    let decoded = yaml(body.as_bytes(), of("core", "ConfigMap")).unwrap();
    let expected = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"},
        "data": {"a": "1", "b": "multi\nline\n"},
    });
    assert_eq!(decoded.value, expected);
}

#[test]
fn reports_yaml_duplicates_with_their_line() {
    let body = "metadata:\n  name: x\ndata:\n  a: '1'\n  a: '2'\nbogus: 1\n";
    let decoded = yaml(body.as_bytes(), of("core", "ConfigMap")).unwrap();
    assert_eq!(decoded.value["data"], json!({"a": "2"}));
    let reported: Vec<String> = decoded.strict_errors.warnings().collect();
    assert_eq!(
        reported,
        [
            r#"line 5: key "a" already set in map"#,
            r#"unknown field "bogus""#
        ]
    );
    let strict = "strict decoding error: yaml: unmarshal errors:\n  line 5: key \"a\" already set in map, unknown field \"bogus\"";
    assert_eq!(decoded.strict_errors.strict_error().unwrap(), strict);
}

#[test]
fn reads_yaml_booleans_as_go_does() {
    let tree = |text: &str| yaml_to_json(text.as_bytes()).unwrap().value;
    assert_eq!(
        tree("a: yes\nb: off\nc: 0644\nd: 0x10\ne: ~\nf: 1.5\ng: 'y'\nh:"),
        json!({"a": true, "b": false, "c": 420, "d": 16, "e": null, "f": 1.5, "g": "y", "h": null})
    );
    assert_eq!(tree("1: a\ntrue: b\n"), json!({"1": "a", "true": "b"}));
    assert_eq!(
        tree("a: &x {k: v}\nb: *x\nc:\n  <<: *x\n  l: w\n"),
        json!({"a": {"k": "v"}, "b": {"k": "v"}, "c": {"k": "v", "l": "w"}})
    );
    assert_eq!(tree("{\"a\": [1, 2]}"), json!({"a": [1, 2]}));
    let expected = "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.name of type string";
    let error = yaml(b"metadata:\n  name: y\n", of("core", "ConfigMap")).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn yaml_that_is_none_is_refused() {
    let error = yaml_to_json(b"a: [").unwrap_err().to_string();
    assert_eq!(error, "yaml: line 1: did not find expected node content");
    assert!(
        yaml_to_json(b"a: b: c")
            .unwrap_err()
            .to_string()
            .starts_with("yaml: line 1: ")
    );
}

#[test]
fn deep_yaml_is_read_and_deeper_yaml_is_refused() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels)).into_bytes();
    let read =
        |levels: usize| yaml_to_json(&nested(levels)).map(|decoded| decoded.value.to_string().into_bytes());
    for levels in [10, 100, 200] {
        assert_eq!(read(levels).unwrap(), nested(levels));
    }
    assert!(read(500).is_err() && read(20_000).is_err());
}

#[test]
fn aliases_of_aliases_do_not_fill_the_memory() {
    let mut lines = vec!["a0: &a0 [x, x, x, x, x, x, x, x, x]".to_owned()];
    for i in 1..10 {
        let again = vec![format!("*a{}", i - 1); 9].join(", ");
        lines.push(format!("a{i}: &a{i} [{again}]"));
    }
    let bomb = lines.join("\n");
    assert!(yaml_to_json(bomb.as_bytes()).is_err());
}

/// The pointers to all values below a value.
fn all_pointers(value: &Value) -> Vec<String> {
    fn visit(value: &Value, at: &str, pointers: &mut Vec<String>) {
        pointers.push(at.to_owned());
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    visit(value, &format!("{at}/{name}"), pointers);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    visit(item, &format!("{at}/{index}"), pointers);
                }
            }
            _ => {}
        }
    }
    let mut pointers = Vec::new();
    visit(value, "", &mut pointers);
    pointers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_normal_form_is_its_own((ty, value) in object()) {
        let decoded = normalize(&value, ty).unwrap();
        prop_assert_eq!(decoded.value, value);
        prop_assert!(decoded.strict_errors.is_empty());
    }

    #[test]
    fn a_tree_is_normalized_in_place_as_its_text_is_decoded(
        (ty, value) in object(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..4),
    ) {
        let mut changed = value;
        for (position, other) in changes {
            let others = [
                json!(null), json!(""), json!("a"), json!([]), json!({}), json!([null]), json!({"a": null}), json!({"bogus": 1}),
                json!(0), json!(1.5), json!(2.0), json!(false), json!("1000m"), json!("0001-01-01T00:00:00Z"),
                json!("2026-01-01T01:00:00.5+01:00"), json!("YQ"), json!(3_000_000_000_u64),
            ];
            let mut pointers = all_pointers(&changed);
            let at = position.index(pointers.len());
            let pointer = pointers.swap_remove(at);
            *changed.pointer_mut(&pointer).unwrap() = others[other.index(others.len())].clone();
        }
        let mut normal = changed.clone();
        if normalize_in_place(&mut normal, ty) {
            let decoded = normalize(&changed, ty).unwrap();
            prop_assert_eq!(&decoded.value, &normal);
            prop_assert!(decoded.strict_errors.is_empty());
        } else {
            prop_assert_eq!(changed, normal);
        }
    }

    #[test]
    fn an_object_in_normal_form_needs_no_text((ty, value) in object()) {
        // Where a schema may be something else, its text is decoded.
        let is_definition = ty.get().name.starts_with("CustomResourceDefinition");
        prop_assert!(is_definition || normalize_in_place(&mut value.clone(), ty));
    }

    #[test]
    fn json_and_yaml_agree((ty, value) in object()) {
        let text = serde_json::to_string(&value).unwrap();
        let decoded = yaml(text.as_bytes(), ty).unwrap();
        prop_assert_eq!(decoded.value, value);
    }

    #[test]
    fn any_bytes_are_read_or_refused((ty, value) in object(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut text = serde_json::to_vec(&value).unwrap();
        for (position, byte) in flips {
            let position = position.index(text.len());
            text[position] = byte;
        }
        let ours = json(&text, ty);
        let theirs: Result<Value, _> = serde_json::from_slice(&text);
        if theirs.is_ok() {
            prop_assert!(!matches!(ours, Err(DecodeError::Syntax(_))), "{:?}", ours);
        }
        let _ = untyped(&text);
        let _ = type_of(&text);
        let _ = yaml_to_json(&text);
    }
}
