//! `get`: tables, output formats, watches, and what a server may answer instead.

use serde_json::{Value, json};

use super::{CannedServer, json_answer, raw, run, run_arguments, stream};

const PODS: &str = "GET /api/v1/namespaces/default/pods";

fn pod(name: &str, image: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}, "resourceVersion": "7",
            "managedFields": [{"manager": "k3"}]},
        "spec": {"containers": [{"name": "a", "image": image}, {"name": "b", "image": "side"}], "priority": 5}})
}

fn list(items: &[Value]) -> Value {
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": items})
}

fn printed(output: &str) -> String {
    let server = CannedServer::start().on(
        PODS,
        &[json_answer(200, &list(&[pod("one", "x:1"), pod("two", "y:2")]))],
    );
    run_arguments(&server, ["get", "pods", "-o", output]).success()
}

fn table(rows: &[(&str, i64)]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|(name, count)| {
            json!({"cells": [name, count], "object": {"metadata": {"name": name, "resourceVersion": "3"}}})
        })
        .collect();
    json!({"kind": "Table", "metadata": {"resourceVersion": "9"},
        "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Count", "priority": 0}], "rows": rows})
}

/// The values are those of kubectl, which prints what Go's `fmt.Sprint` writes.
#[test]
fn columns_show_values_as_kubectl_does() {
    for (columns, expected) in [
        ("N:.metadata.name", "N\none\ntwo\n"),
        ("P:.spec.priority,X:.spec.none", "P   X\n5   <none>\n5   <none>\n"),
        ("I:.spec.containers[*].image", "I\nx:1,side\ny:2,side\n"),
        ("L:.metadata.labels", "L\nmap[app:web]\nmap[app:web]\n"),
        (
            "C:.spec.containers[0]",
            "C\nmap[image:x:1 name:a]\nmap[image:y:2 name:a]\n",
        ),
    ] {
        let shown = printed(&format!("custom-columns={columns}"));
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        let expected: Vec<&str> = expected.lines().collect();
        let arguments = |lines: &[&str]| -> Vec<Vec<String>> {
            lines
                .iter()
                .map(|line| {
                    line.split("   ")
                        .filter(|cell| !cell.is_empty())
                        .map(|cell| cell.trim().to_owned())
                        .collect()
                })
                .collect()
        };
        assert_eq!(arguments(&lines), arguments(&expected), "{columns}: {shown}");
    }
}

#[test]
fn paths_show_values_of_a_list_and_of_one_object() {
    for (template, expected) in [
        ("jsonpath={.items[*].metadata.name}", "one two"),
        (
            r#"jsonpath={range .items[*]}{.metadata.name}{"="}{.spec.priority}{"\n"}{end}"#,
            "one=5\ntwo=5\n",
        ),
        ("jsonpath={.items[0].metadata.labels}", r#"{"app":"web"}"#),
        (
            r#"jsonpath={.items[?(@.metadata.name=="two")].spec.containers[0].image}"#,
            "y:2",
        ),
        ("jsonpath={.items[0].spec.none}", ""),
    ] {
        assert_eq!(printed(template), expected, "{template}");
    }
}

#[test]
fn objects_are_printed_without_managed_fields() {
    let text = printed("json");
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read["kind"], "List");
    assert_eq!(read["items"][1]["metadata"]["name"], "two");
    // Items of a list have no type of their own: it is added.
    assert_eq!(read["items"][0]["kind"], "Pod");
    assert!(!text.contains("managedFields"), "{text}");
    assert_eq!(printed("name"), "pod/one\npod/two\n");
}

#[test]
fn several_names_are_requested_one_by_one_and_missing_ones_reported() {
    let missing =
        json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "pods \"b\" not found"});
    let server = CannedServer::start()
        .on(
            "GET /api/v1/namespaces/default/pods/a",
            &[json_answer(200, &pod("a", "x"))],
        )
        .on(
            "GET /api/v1/namespaces/default/pods/b",
            &[json_answer(404, &missing)],
        );
    let outcome = run(&server, "get pods a b -o name");
    assert!(outcome.printed.ends_with("/a\n"), "{}", outcome.printed);
    assert_eq!(
        outcome.failure(),
        "Error from server (NotFound): pods \"b\" not found"
    );
    let outcome = run(&server, "get pods a b -o name --ignore-not-found");
    assert!(outcome.error.is_none());
}

#[test]
fn a_watch_prints_the_table_once_and_then_rows_until_the_server_ends_it_with_an_error() {
    let event = |kind: &str, rows: &[(&str, i64)]| json!({"type": kind, "object": table(rows)}).to_string();
    let end = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}});
    let body = [
        event("MODIFIED", &[("one", 2)]),
        String::new(),
        event("DELETED", &[("one", 2)]),
        end.to_string(),
    ];
    let server = CannedServer::start()
        .on(
            &format!("{PODS}?includeObject=Metadata"),
            &[json_answer(200, &table(&[("one", 1)]))],
        )
        .on(
            &format!("{PODS}?includeObject=Metadata&watch=true&resourceVersion=9"),
            &[stream(&body.join("\n"))],
        );
    let outcome = run(&server, "get pods -w");
    let lines: Vec<Vec<&str>> = outcome
        .printed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines,
        [["NAME", "COUNT"], ["one", "1"], ["one", "2"], ["one", "2"]]
    );
    assert_eq!(outcome.failure(), "Error from server (Expired): too old");
}

/// The revision of the last event is where the next watch begins: otherwise a change between the two would be lost.
#[test]
fn a_watch_that_ends_is_continued_after_its_last_event() {
    let watch =
        |revision: &str| format!("{PODS}?includeObject=Metadata&watch=true&resourceVersion={revision}");
    let event = json!({"type": "ADDED", "object": table(&[("two", 1)])}).to_string();
    let end =
        json!({"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "end"}}).to_string();
    let server = CannedServer::start()
        .on(
            &format!("{PODS}?includeObject=Metadata"),
            &[json_answer(200, &table(&[]))],
        )
        .on(&watch("9"), &[stream(&event)])
        .on(&watch("3"), &[stream(&end)]);
    let outcome = run(&server, "get pods -w --no-headers");
    assert_eq!(
        outcome.printed.split_whitespace().collect::<Vec<_>>(),
        ["two", "1"]
    );
    assert_eq!(outcome.failure(), "Error from server: end");
}

#[test]
fn an_answer_that_is_no_table_is_an_error_and_not_an_empty_list() {
    for (answer, expected) in [
        (raw(200, "<html>proxy</html>"), "the server sent an invalid table"),
        (raw(200, ""), "the server sent an invalid table"),
        (
            raw(200, r#"{"kind": "Table", "rows": 5}"#),
            "the server sent an invalid table",
        ),
    ] {
        let server = CannedServer::start().on(&format!("{PODS}?includeObject=None"), &[answer]);
        let text = run(&server, "get pods").failure();
        assert!(text.contains(expected), "{text}");
    }
}
