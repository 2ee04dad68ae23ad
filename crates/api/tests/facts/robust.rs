//! Rules and trees of any form.

use super::directory;
use k3_api::{
    kinds::{Kind, builtin},
    strategy::{self, StrategyContext, User, WrittenPart},
    time::Time,
};
use serde_json::{Value, json};

#[test]
fn validation_never_panics_on_any_value() {
    each_created(disturb);
}

#[test]
fn rules_keep_objects_in_normal_form() {
    let mut count = 0;
    each_created(|kind, body| {
        let mut object = kind.ty.json(body.to_string().as_bytes()).unwrap().value;
        let rules = strategy::for_kind(kind);
        rules.set_defaults(&mut object);
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!("u");
        if kind.is_namespaced() {
            metadata["namespace"] = json!("n");
        }
        if strategy::create(&mut object, &at(kind, &User::default())).is_ok() {
            count += 1;
            let normal = kind.ty.normalize(&object).unwrap().value;
            assert_eq!(object, normal, "{}", kind.kind);
        }
    });
    println!("{count} objects are in normal form");
}

/// Calls with each object that a recorded case creates.
fn each_created(mut call: impl FnMut(&Kind, &Value)) {
    let cases = directory("K3_GOLDEN", "golden").join("cases/create-defaults");
    let Ok(files) = std::fs::read_dir(&cases) else {
        println!("left out: no cases at {} (set K3_GOLDEN)", cases.display());
        return;
    };
    for file in files.filter_map(Result::ok) {
        let text = std::fs::read_to_string(file.path()).expect("a case can be read");
        let case: Value = serde_json::from_str(&text.replace("${id}", "7")).expect("a case is JSON");
        for step in case["steps"].as_array().into_iter().flatten() {
            let body = &step["body"];
            let version = body["apiVersion"].as_str().unwrap_or_default();
            let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
            let kind = body["kind"].as_str().unwrap_or_default();
            if let Some(kind) = builtin().kind(group, version, kind) {
                call(kind, body);
            }
        }
    }
}

fn disturb(kind: &Kind, body: &Value) {
    let Ok(decoded) = kind.ty.json(body.to_string().as_bytes()) else {
        return;
    };
    let object = decoded.value;
    let mut paths = Vec::new();
    collect(&object, String::new(), &mut paths);
    for field_path in &paths {
        for value in [json!(-7), json!("\u{e9}:"), json!([[]])] {
            let mut changed = object.clone();
            let part = changed
                .pointer_mut(field_path)
                .expect("the path is one of the object");
            *part = value;
            ask(kind, changed, &object);
        }
    }
}

fn collect(value: &Value, field_path: String, paths: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(value, format!("{field_path}/{name}"), paths);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, format!("{field_path}/{index}"), paths);
            }
        }
        _ => {}
    }
    paths.push(field_path);
}

fn ask(kind: &Kind, mut object: Value, old: &Value) {
    let rules = strategy::for_kind(kind);
    let user = User::default();
    let at = at(kind, &user);
    rules.set_defaults(&mut object);
    rules.row(&object, at.now);
    for field in rules.selectable_fields() {
        field.get(&object);
    }
    for part in [WrittenPart::Object, WrittenPart::Status] {
        drop(strategy::update(&mut object.clone(), old, part, &at));
        drop(strategy::update(&mut old.clone(), &object, part, &at));
    }
    drop(strategy::create(&mut object, &at));
}

fn at<'r>(kind: &'r Kind, user: &'r User) -> StrategyContext<'r> {
    StrategyContext {
        kind,
        now: Time::from_unix(0, 0),
        user,
    }
}
