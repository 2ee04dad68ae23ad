use super::*;

fn errors(spec: &Value) -> Vec<String> {
    let mut errors = ErrorList::new();
    validate_ingress_spec(spec, IngressValidationOptions::default(), &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn path(path: &str, kind: &str) -> Value {
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    json!({"rules": [{"http": {"paths": [{"path": path, "pathType": kind, "backend": backend}]}}]})
}

#[test]
fn rejects_relative_paths_and_dot_segments() {
    assert_eq!(errors(&path("/a", "Prefix")), [""; 0]);
    assert_eq!(errors(&path("", "ImplementationSpecific")), [""; 0]);
    assert_eq!(
        errors(&path("a//b/..", "Exact")),
        [
            "spec.rules[0].http.paths[0].path: Invalid value: \"a//b/..\": must be an absolute path",
            "spec.rules[0].http.paths[0].path: Invalid value: \"a//b/..\": must not contain '//'",
            "spec.rules[0].http.paths[0].path: Invalid value: \"a//b/..\": cannot end with '/..'",
        ]
    );
}

#[test]
fn rejects_ambiguous_backends() {
    let both = json!({"defaultBackend": {"service": {"name": "s"}, "resource": {}}});
    assert_eq!(
        errors(&both),
        ["spec.defaultBackend: Invalid value: \"\": cannot set both resource and service backends"]
    );
    let ports = json!({"defaultBackend": {"service": {"name": "1s", "port": {"name": "a", "number": 1}}}});
    assert_eq!(
        errors(&ports),
        ["spec.defaultBackend: Invalid value: \"\": cannot set both port name & port number"]
    );
}

#[test]
fn tolerates_invalid_values_of_the_old_object() {
    let old = json!({"rules": [{"host": "*.a.io", "http": {}}], "tls": [{"secretName": "A"}]});
    assert_eq!(errors(&old).len(), 2);
    let mut messages = ErrorList::new();
    validate_ingress_spec(&old, IngressValidationOptions::from_old(&old), &mut messages);
    assert_eq!(messages, ErrorList::new());
}

#[test]
fn row_names_three_hosts() {
    let rules = |names: &[&str]| -> Vec<Value> { names.iter().map(|host| json!({"host": host})).collect() };
    assert_eq!(format_hosts(&[]), "*");
    assert_eq!(format_hosts(&rules(&["a", "", "b"])), "a,b");
    assert_eq!(
        format_hosts(&rules(&["a", "b", "c", "d", ""])),
        "a,b,c + 2 more..."
    );
    let object = json!({"status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "1h"}]}}});
    let row = Ingress.row(&object, Time::from_unix(0, 0));
    assert_eq!(
        row.cells[1..5],
        [json!("<none>"), json!("*"), json!("1h,2.2.2.2"), json!("80")]
    );
}

#[test]
fn warns_of_the_deprecated_class_annotation() {
    let object = json!({"metadata": {"annotations": {CLASS_ANNOTATION: "c"}}, "spec": {}});
    assert_eq!(
        Ingress.warnings(&object, None),
        [
            "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
        ]
    );
    assert_eq!(Ingress.warnings(&object, Some(&object)), [""; 0]);
}
