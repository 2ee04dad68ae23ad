//! Replays recorded creates and updates through the rules alone, without a server, and shows where the answers differ.
//!
//! `cargo run -p k3-api --example rules_replay -- DIRECTORY [PREFIX ...]` reads the cases in DIRECTORY whose names begin with one
//! of the prefixes (all without any) and prints a line for each difference. What a server adds (admission, allocation, most
//! of the metadata) is not compared, so a case that is all right here may still differ there.

use std::{collections::BTreeMap, fs};

use k3_api::{
    kinds::{Kind, Persistence, builtin, service},
    patch,
    status::Status,
    strategy::{self, ColumnDescription, StrategyContext, Tree, TreeMut, User, WrittenPart},
    time::Time,
};
use serde_json::{Value, json};

/// The uid of every object here; recordings have a placeholder instead.
const UID: &str = "00000000-0000-4000-8000-000000000000";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("the directory with the cases is given");
    let prefixes: Vec<String> = arguments.collect();
    let mut files: Vec<_> = fs::read_dir(&directory)
        .expect("the directory can be read")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    files.sort();
    let mut same = 0;
    let mut all = 0;
    for file in files {
        let name = file
            .file_stem()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        if !prefixes.is_empty() && !prefixes.iter().any(|prefix| name.starts_with(prefix.as_str())) {
            continue;
        }
        let text = fs::read_to_string(&file)
            .expect("a case can be read")
            .replace("${ns}", "golden")
            .replace("${id}", "id");
        let text = repeated(&text);
        let case: Value = serde_json::from_str(&text).expect("a case is JSON");
        let mut objects = BTreeMap::new();
        for (number, step) in case.items("steps").iter().enumerate() {
            let Some(got) = play(step, &mut objects) else {
                continue;
            };
            let want = step.at_path("expect.body");
            if want.is_null() || step.flag("setup") {
                continue;
            }
            all += 1;
            let got = serde_json::from_str(&got.to_string().replace(UID, "<uid>")).expect("still JSON");
            let differences = compare(want, &got);
            same += usize::from(differences.is_empty());
            for (location, want, got) in differences.iter().take(12) {
                println!("{name}[{number}] {location}\n    want {want}\n    got  {got}");
            }
        }
    }
    println!("{same} of {all} steps are the same");
}

/// Writes `${repeat:x:3}` out.
fn repeated(text: &str) -> String {
    let mut parts = text.split("${repeat:");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (order, rest) = part.split_once('}').unwrap_or_default();
        let (unit, count) = order.rsplit_once(':').unwrap_or_default();
        whole.push_str(&unit.repeat(count.parse().unwrap_or_default()));
        whole.push_str(rest);
    }
    whole
}

/// What a path asks for: kind, name, subresource.
fn target(path: &str) -> Option<(&'static Kind, String, String)> {
    let path = path.split('?').next()?;
    let mut parts = path.trim_matches('/').split('/');
    let (group, version) = match parts.next()? {
        "api" => ("", parts.next()?),
        _ => (parts.next()?, parts.next()?),
    };
    let mut parts: Vec<&str> = parts.collect();
    if parts.len() > 2 && parts[0] == "namespaces" && !matches!(parts[2], "status" | "finalize") {
        parts.drain(..2);
    }
    let kind = builtin().resource(group, version, parts.first()?)?;
    let part = |index: usize| parts.get(index).copied().unwrap_or_default().to_owned();
    Some((kind, part(1), part(2)))
}

fn play(step: &Value, objects: &mut BTreeMap<String, Value>) -> Option<Value> {
    let (kind, name, subresource) = target(step.text("path"))?;
    let body = match step.at("body") {
        Value::Null => step.text("rawBody").as_bytes().to_vec(),
        body => serde_json::to_vec(body).expect("a tree can be written"),
    };
    let user = User {
        name: "admin".into(),
        uid: "u-admin".into(),
        groups: vec!["system:masters".into(), "system:authenticated".into()],
        ..User::default()
    };
    let now = Time::parse("2026-01-02T03:04:05Z").expect("a time");
    let at = StrategyContext {
        kind,
        now,
        user: &user,
    };
    let key = |name: &str| format!("{}/{}/{name}", kind.group, kind.plural);
    if step.text("method") == "GET" && step.at_path("headers").text("Accept").contains("as=Table") {
        let shown = |location: &&String| location.starts_with(&key(&name));
        let objects = objects.iter().filter(|(location, _)| shown(location));
        return Some(table(kind, objects.map(|(_, object)| object), now));
    }
    let result = match step.text("method") {
        "POST" if kind.persistence == Persistence::Virtual => {
            let mut object = kind.ty.json(&body).ok()?.value;
            if kind.is_namespaced() {
                object
                    .ensure_object("metadata")
                    .set_default("namespace", "golden");
            }
            strategy::for_kind(kind).set_defaults(&mut object);
            strategy::review(&object, &at).map(|()| (object, Vec::new()))
        }
        "POST" if name.is_empty() => {
            let mut object = kind.ty.json(&body).ok()?.value;
            let metadata = object.ensure_object("metadata");
            if kind.is_namespaced() {
                metadata.set_default("namespace", "golden");
            }
            metadata.set("uid", UID);
            metadata.set("creationTimestamp", "2026-01-02T03:04:05Z");
            metadata.set("resourceVersion", "1");
            strategy::for_kind(kind).set_defaults(&mut object);
            let given = match kind.kind.as_str() {
                "Service" => give(&mut object, None),
                "Pod" => {
                    admit(&mut object);
                    Ok(())
                }
                _ => Ok(()),
            };
            given
                .and_then(|()| strategy::create(&mut object, &at))
                .map(|warnings| (object, warnings))
        }
        method @ ("PUT" | "PATCH") => {
            let old = objects.get(&key(&name))?.clone();
            let mut new = if method == "PUT" {
                kind.ty.json(&body).ok()?.value
            } else {
                patched(step, kind, old.clone(), &body)?
            };
            let metadata = new.ensure_object("metadata");
            if kind.is_namespaced() {
                metadata.set_default("namespace", "golden");
            }
            metadata.set("resourceVersion", "1");
            strategy::for_kind(kind).set_defaults(&mut new);
            let part = match subresource.as_str() {
                "" => WrittenPart::Object,
                "status" => WrittenPart::Status,
                "scale" => return None,
                other => WrittenPart::Other(other),
            };
            let given = match kind.kind.as_str() {
                "Service" if part == WrittenPart::Object => give(&mut new, Some(&old)),
                _ => Ok(()),
            };
            given
                .and_then(|()| strategy::update(&mut new, &old, part, &at))
                .map(|warnings| (new, warnings))
        }
        _ => return None,
    };
    Some(match result {
        Ok((object, _)) => {
            objects.insert(key(object.at("metadata").text("name")), object.clone());
            object
        }
        Err(status) => answer(&status),
    })
}

/// What a patch makes of an object; `None` if it is refused, or an apply.
fn patched(step: &Value, kind: &Kind, old: Value, body: &[u8]) -> Option<Value> {
    let document: Value = serde_json::from_slice(body).ok()?;
    let patched = match step.at_path("headers").text("Content-Type") {
        "application/json-patch+json" => patch::json::Patch::try_new(document).ok()?.apply(old).ok()?,
        "application/merge-patch+json" => patch::merge::apply(old, document).ok()?,
        "application/strategic-merge-patch+json" => patch::strategic::apply(old, document, &kind.ty).ok()?,
        _ => return None,
    };
    Some(kind.ty.normalize(&patched).ok()?.value)
}

/// Gives a service what it needs, without looking who else has it.
fn give(new: &mut Value, old: Option<&Value>) -> Result<(), Status> {
    let ranges = service::ServiceIpFamilies::default();
    match old {
        None => service::default_on_create(new, ranges)?,
        Some(old) => service::default_on_update(new, old, ranges)?,
    }
    for address in service::cluster_ip_changes(Some(new), old).take {
        let given = address.requested.unwrap_or_else(|| "10.96.0.99".to_owned());
        service::set_cluster_ip(new, address.index, &given);
    }
    let ports = service::node_port_changes(Some(new), old)?;
    for (index, want) in ports.take {
        let number = match want {
            service::NodePortRequest::Number(number) => number,
            service::NodePortRequest::Any => 30099,
            service::NodePortRequest::SameAs(other) => {
                let ports = new.at("spec").items("ports");
                ports
                    .get(other)
                    .and_then(|port| port.int("nodePort"))
                    .unwrap_or_default()
            }
        };
        service::set_node_port(new, index, number);
    }
    if let Some(service::NodePortRequest::Any) = ports.health {
        service::set_health_check_node_port(new, 30098);
    }
    Ok(())
}

/// What of a table the rules know.
fn table<'o>(kind: &Kind, objects: impl Iterator<Item = &'o Value>, now: Time) -> Value {
    let rules = strategy::for_kind(kind);
    let columns = rules.columns().iter().map(|column| {
        json!({
            "name": column.name,
            "type": column.kind,
            "format": column.format,
            "priority": column.priority,
            "description": match &column.description {
                ColumnDescription::Text(text) => text.as_ref(),
                ColumnDescription::Field(_) => "<field>",
            },
        })
    });
    let rows = objects.map(|object| json!({"cells": rules.row(object, now).cells}));
    json!({
        "kind": "Table",
        "columnDefinitions": columns.collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(),
    })
}

/// What admission gives every pod.
fn admit(pod: &mut Value) {
    let spec = pod.ensure_object("spec");
    spec.set_default("serviceAccountName", "default");
    spec.set_default("serviceAccount", "default");
    spec.set_default("priority", 0);
    spec.set_default("preemptionPolicy", "PreemptLowerPriority");
    let mut tolerations = spec.items("tolerations").to_vec();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = |other: &Value| {
            (other.text("key").is_empty() || other.text("key") == key)
                && matches!(other.text("effect"), "" | "NoExecute")
        };
        if !tolerations.iter().any(tolerates) {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
    spec.set("tolerations", tolerations);
}

fn answer(status: &Status) -> Value {
    serde_json::from_str(&status.to_json()).expect("a status is JSON")
}

fn compare(want: &Value, got: &Value) -> Vec<(String, Value, Value)> {
    let mut want = want.clone();
    let mut got = got.clone();
    if want.text("kind") == "Table" {
        want.remove("apiVersion");
        for row in want.items_mut("rows") {
            row.remove("object");
        }
    }
    for object in [&mut want, &mut got] {
        if object.text("kind") != "Status" {
            let generation = object.at("metadata").at("generation").clone();
            object.set("metadata", json!({"generation": generation}));
        }
    }
    let mut differences = Vec::new();
    walk(String::new(), &want, &got, &mut differences);
    differences
}

fn walk(location: String, want: &Value, got: &Value, differences: &mut Vec<(String, Value, Value)>) {
    match (want, got) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for name in names {
                walk(
                    format!("{location}/{name}"),
                    want.at(name),
                    got.at(name),
                    differences,
                );
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for index in 0..a.len().max(b.len()) {
                let item = |list: &[Value]| list.get(index).cloned().unwrap_or_default();
                walk(format!("{location}/{index}"), &item(a), &item(b), differences);
            }
        }
        (Value::String(text), _) if text.starts_with('<') && text.ends_with('>') => {}
        (_, Value::String(text)) if text == "<field>" => {}
        _ if want == got => {}
        _ => differences.push((location, want.clone(), got.clone())),
    }
}
