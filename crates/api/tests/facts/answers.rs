//! Recorded requests and answers of a server: answers are in normal form and survive their way through
//! protobuf; requests are refused, warned of and taken as they were.

use super::directory;
use k3_api::decode::{DecodeError, DecodedBody, json, normalize, yaml};
use k3_api::protobuf;
use k3_api::schema::{StructRef, schema};
use serde_json::Value;
use std::path::Path;

/// One recorded request with its answer.
struct Step {
    case: String,
    step: Value,
}

/// The steps of all recorded cases; `None`, with a printed line, where there are none.
fn steps() -> Option<Vec<Step>> {
    let cases = directory("K3_GOLDEN", "golden").join("cases");
    if !cases.is_dir() {
        println!(
            "left out: no recorded answers at {} (set K3_GOLDEN)",
            cases.display()
        );
        return None;
    }
    let mut found = Vec::new();
    gather(&cases, &mut found);
    Some(found)
}

fn gather(directory: &Path, found: &mut Vec<Step>) {
    for entry in std::fs::read_dir(directory).expect("a directory of cases can be listed") {
        let path = entry.expect("its entries can be read").path();
        if path.is_dir() {
            gather(&path, found);
            continue;
        }
        let text = std::fs::read(&path).expect("a case can be read");
        let mut case: Value = serde_json::from_slice(&text).expect("a case is JSON");
        for step in case["steps"].as_array_mut().into_iter().flatten() {
            found.push(Step {
                case: path.display().to_string(),
                step: step.take(),
            });
        }
    }
}

/// The answers, with what differs from run to run filled in.
fn answers() -> Option<impl Iterator<Item = (String, Value, StructRef)>> {
    let steps = steps()?;
    Some(steps.into_iter().filter_map(|mut step| {
        let mut body = step.step["expect"]["body"].take();
        fill(&mut body);
        // One answer is recorded in part only.
        let whole = body["kind"] != "APIGroupDiscoveryList" || body.get("items").is_some();
        let ty = type_of(&body).filter(|_| whole)?;
        Some((step.case, body, ty))
    }))
}

fn fill(value: &mut Value) {
    match value {
        Value::String(text) if text == "<time>" => "2024-01-01T00:00:00Z".clone_into(text),
        Value::String(text) if text == "<microtime>" => "2024-01-01T00:00:00.000000Z".clone_into(text),
        Value::String(text) if text == "<nodePort>" => *value = Value::from(30_000),
        Value::Array(items) => items.iter_mut().for_each(fill),
        Value::Object(fields) => fields.values_mut().for_each(fill),
        _ => {}
    }
}

fn type_of(body: &Value) -> Option<StructRef> {
    let version = body["apiVersion"].as_str()?;
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    schema().kind(group, version, body["kind"].as_str()?)
}

#[test]
fn recorded_responses_are_in_normal_form() {
    let Some(answers) = answers() else { return };
    let mut checked = 0;
    for (from, body, ty) in answers {
        let decoded = normalize(&body, ty).unwrap_or_else(|error| panic!("{from}: {error}\n{body:#}"));
        assert_eq!(decoded.value, body, "{from}");
        assert!(
            decoded.strict_errors.is_empty(),
            "{from}: {:?}",
            decoded.strict_errors
        );
        checked += 1;
    }
    assert!(checked > 1000, "only {checked} answers");
}

#[test]
fn recorded_answers_survive_protobuf() {
    let Some(answers) = answers() else { return };
    let mut checked = 0;
    for (from, mut body, ty) in answers {
        let written = protobuf::encode(&body, ty).unwrap_or_else(|error| panic!("{from}: {error}"));
        let read = protobuf::decode(&written, ty).unwrap_or_else(|error| panic!("{from}: {error}"));
        forget(&mut body);
        assert_eq!(read, body, "{from}");
        checked += 1;
    }
    assert!(checked > 1000, "only {checked} answers");
}

/// Removes what protobuf messages cannot express: empty lists, and the kinds of objects within objects.
fn forget(body: &mut Value) {
    if body["items"].as_array().is_some_and(Vec::is_empty) {
        body["items"] = Value::Null;
    }
    for list in ["/items", "/spec/volumeClaimTemplates"] {
        let items = body.pointer_mut(list).and_then(Value::as_array_mut);
        for item in items.into_iter().flatten().filter_map(Value::as_object_mut) {
            item.remove("kind");
            item.remove("apiVersion");
        }
    }
}

#[test]
fn decodes_recorded_requests() {
    let Some(steps) = steps() else { return };
    let mut taken = 0;
    let mut refused = 0;
    let mut warned = 0;
    for Step { case, step } in steps {
        let Some(decoded) = request(&step) else { continue };
        let expect = &step["expect"];
        let message = expect["body"]["message"].as_str().unwrap_or_default();
        let strict = step["path"]
            .as_str()
            .is_some_and(|path| path.contains("fieldValidation=Strict"));
        let complaint = match &decoded {
            Ok(decoded) => decoded.strict_errors.strict_error().filter(|_| strict),
            Err(error) => Some(error.to_string()),
        };
        let messages = message
            .split_once(" cannot be handled as a ")
            .and_then(|(_, rest)| rest.split_once(": "));
        // An object of a kind that its path does not serve is well-formed all the same.
        let messages = messages
            .map(|(_, messages)| messages)
            .filter(|messages| !messages.starts_with("converting ("));
        // Fields are reported in the order of the text, which the recording does not keep.
        assert_eq!(complaint.as_deref().map(parts), messages.map(parts), "{case}");
        let Ok(decoded) = decoded else {
            refused += 1;
            continue;
        };
        taken += 1;
        let quiet = step["path"]
            .as_str()
            .is_some_and(|path| path.contains("fieldValidation=Ignore"));
        let messages = expect["headers"]["warning"].to_string().replace('\\', "");
        for warning in decoded.strict_errors.warnings().filter(|_| !strict && !quiet) {
            assert!(
                messages.contains(&warning.replace('\\', "")),
                "{case}: {warning} is not in {messages}"
            );
            warned += 1;
        }
    }
    assert!(
        taken > 500 && refused > 5 && warned > 10,
        "{taken} taken, {refused} refused, {warned} warned"
    );
}

fn parts(complaint: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = complaint
        .trim_start_matches("strict decoding error: ")
        .split(", ")
        .collect();
    parts.sort_unstable();
    parts
}

/// The decoded body of a request that creates or replaces an object of a built-in kind.
fn request(step: &Value) -> Option<Result<DecodedBody, DecodeError>> {
    if !["POST", "PUT"].contains(&step["method"].as_str()?) {
        return None;
    }
    if let Some(text) = step["rawBody"].as_str() {
        let is_yaml = step["headers"]["Content-Type"] == "application/yaml";
        let tree = k3_api::decode::yaml_to_json(text.as_bytes()).ok()?;
        let ty = type_of(&tree.value)?;
        return Some(if is_yaml {
            yaml(text.as_bytes(), ty)
        } else {
            json(text.as_bytes(), ty)
        });
    }
    let ty = type_of(&step["body"])?;
    // Long texts are recorded as what makes them, and parts of other answers as where to find them.
    let text = step["body"].to_string();
    if text.contains("${repeat") || text.contains("${steps") {
        return None;
    }
    Some(json(&serde_json::to_vec(&step["body"]).ok()?, ty))
}
