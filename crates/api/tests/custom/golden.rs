//! Recorded requests and answers about custom resources, as far as rules alone decide them.

use std::path::Path;

use k3_api::strategy::{Tree, TreeMut};
use serde_json::{Value, json};

use crate::server::{ObjectResponse, Server, tree};

/// What the server decides, and not the rules.
const NOT_OF_RULES: [&str; 12] = [
    "apply-",
    "cr-deletecollection",
    "cr-duplicate",
    "cr-no-apiversion",
    "cr-watch",
    "discovery-",
    "multi-version",
    "names-conflict",
    "status-subresource-of-crd",
    "finalizer",
    "selectable-fields",
    "cr-wrong-kind",
];

#[test]
fn responses_match_the_recording() {
    let Some(directory) = std::env::var_os("K3_GOLDEN") else {
        println!("left out: no recordings (set K3_GOLDEN)");
        return;
    };
    let directory = Path::new(&directory).join("cases/crd");
    let mut names: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut played = 0;
    let mut wrong = Vec::new();
    for name in names {
        if NOT_OF_RULES.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let text = std::fs::read_to_string(directory.join(&name)).unwrap();
        let case = tree(&text.replace("${id}", "t").replace("${ns}", "ns"));
        played += 1;
        wrong.extend(play(&case).into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(played > 60, "{played}");
}

fn play(case: &Value) -> Vec<String> {
    let mut server = Server::default();
    let mut wrong = Vec::new();
    for step in case.items("steps") {
        let method = step.text("method");
        let path = step.text("path");
        let (path, _) = path.split_once('?').unwrap_or((path, ""));
        let body = step.at("body").clone();
        let parts: Vec<_> = path.split('/').skip(1).collect();
        let answer: ObjectResponse = match (method, parts.as_slice()) {
            ("POST", [.., "customresourcedefinitions"]) => {
                server.define(&body).map(|warnings| (Value::Null, warnings))
            }
            ("PATCH", [.., "customresourcedefinitions", _]) => {
                server.redefine(body).map(|()| (Value::Null, Vec::new()))
            }
            ("POST", ["apis", _, version, ..]) => server.create(version, &body),
            ("PATCH", ["apis", _, version, "namespaces", _, _, name]) => {
                server.patch(version, name, "", body)
            }
            ("PATCH", ["apis", _, version, "namespaces", _, _, name, part]) => {
                server.patch(version, name, part, body)
            }
            ("GET", ["apis", _, version, "namespaces", _, _, name, "scale"]) => {
                server.scale(version, name).map(|scale| (scale, Vec::new()))
            }
            ("GET", ["apis", _, version, "namespaces", _, _])
                if step.at("headers").text("Accept").contains("as=Table") =>
            {
                let rows = server.rows(version);
                let theirs = step.at("expect").at("body").items("rows").iter();
                for (ours, theirs) in rows.iter().zip(theirs) {
                    let same = ours.iter().zip(theirs.items("cells")).all(|(ours, theirs)| {
                        ours == theirs
                            || theirs == "<age>"
                            || theirs.as_str().is_some_and(|age| age.ends_with('d'))
                    });
                    if !same {
                        wrong.push(format!("{ours:?} for {}", theirs.at("cells")));
                    }
                }
                continue;
            }
            _ => continue,
        };
        if step.flag("setup") && answer.is_ok() {
            continue;
        }
        if let Some(difference) = compare(&answer, step.at("expect")) {
            wrong.push(format!("{method} {path}: {difference}"));
        }
    }
    wrong
}

fn compare(answer: &ObjectResponse, expected: &Value) -> Option<String> {
    let theirs = expected.at("body");
    match answer {
        Err(status) if theirs.is_null() => {
            let code = expected.int("status");
            (code != Some(status.code.into())).then(|| format!("{}, not {code:?}", status.message))
        }
        Err(status) => {
            let ours = sorted(status.to_value());
            let theirs = sorted(theirs.clone());
            (ours != theirs).then(|| format!("\n  {ours}\n  {theirs}"))
        }
        Ok(_) if expected.int("status") >= Some(400) => Some(format!("accepted, not {theirs}")),
        Ok((object, warnings)) => {
            let messages: Vec<String> = expected
                .at("headers")
                .texts("warning")
                .map(|text| text.replace("299 - ", ""))
                .collect();
            let ours: Vec<_> = warnings.iter().map(|text| k3_api::go::quote(text)).collect();
            if ours != messages {
                return Some(format!("warns {ours:?}, not {messages:?}"));
            }
            if object.is_null() || theirs.is_null() || theirs.text("kind") == "Scale" {
                return None;
            }
            let mut ours = bare(object);
            let mut theirs = bare(theirs);
            for name in ["creationTimestamp", "uid"] {
                ours.ensure_object("metadata").remove(name);
                theirs.ensure_object("metadata").remove(name);
            }
            (ours != theirs).then(|| format!("\n  {ours}\n  {theirs}"))
        }
    }
}

/// An object without what the server sets.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    for name in [
        "managedFields",
        "resourceVersion",
        "namespace",
        "name",
        "generateName",
    ] {
        object.ensure_object("metadata").remove(name);
    }
    object
}

/// The order of errors is that of a hash map there.
fn sorted(mut status: Value) -> Value {
    let mut causes = status.at("details").items("causes").to_vec();
    causes.sort_by_key(ToString::to_string);
    if let Some(details) = status.at_mut("details")
        && !causes.is_empty()
    {
        details.set("causes", json!(causes));
        if causes.len() > 1 {
            status.remove("message");
        }
    }
    status
}
