//! Apply and the tracking of fields against recorded requests and answers.
//!
//! The recordings are not part of the project. They are looked for in the directory `K3_GOLDEN`, then in
//! `../shared/golden` beside the workspace; where they are absent these tests say so and are left out.
//!
//! There is no server here: each step starts from the recorded answer of the step before, so that defaults
//! and what admission adds are upstream's. What is checked is the record, the message and the causes.

use std::path::{Path, PathBuf};

use k3_api::{
    apply::{
        FieldSet,
        managed::{ApplyConflictPolicy, ApplyError, FieldManager, ResetFields, SingleVersion},
        typed,
    },
    kinds::{Kind, builtin},
    time::Time,
};
use serde_json::{Value, json};

fn recordings() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden");
    let directory = std::env::var_os("K3_GOLDEN")
        .map_or_else(beside, PathBuf::from)
        .join("cases");
    if directory.is_dir() {
        return Some(directory);
    }
    println!(
        "left out: no recordings at {} (set K3_GOLDEN)",
        directory.display()
    );
    None
}

/// A recorded case, with the object as it was after the last step.
struct Case {
    name: String,
    strictness: Strictness,
    live: Option<Value>,
    /// Whether the object is as recorded. Where an answer was not recorded it lacks its defaults.
    exact: bool,
    checked: usize,
    wrong: Vec<String>,
}

/// What counts as wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// Any difference.
    Exact,
    /// Fields that are missing, or that are there without need although the request brought them. What
    /// admission and allocation add after the record is made is in the answer, so it seems to be recorded.
    WithoutAdmission,
}

/// What a path asks for.
struct Target {
    kind: &'static Kind,
    subresource: String,
    manager: String,
    force: ApplyConflictPolicy,
    dry_run: bool,
}

impl Target {
    fn parse(url: &str, agent: &str) -> Option<Self> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let mut parts = path.trim_matches('/').split('/').peekable();
        let (group, version) = match parts.next()? {
            "api" => ("", parts.next()?),
            "apis" => (parts.next()?, parts.next()?),
            _ => return None,
        };
        let mut parts: Vec<&str> = parts.collect();
        if parts.len() > 2 && parts[0] == "namespaces" && !matches!(parts[2], "status" | "finalize") {
            parts.drain(..2);
        }
        let kind = builtin().resource(group, version, parts.first()?)?;
        let parameter = |name: &str| {
            query
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .find(|pair| pair.0 == name)
                .map(|pair| pair.1)
        };
        Some(Self {
            kind,
            subresource: parts.get(2).copied().unwrap_or_default().to_owned(),
            manager: parameter("fieldManager").unwrap_or(agent).to_owned(),
            force: if parameter("force") == Some("true") {
                ApplyConflictPolicy::Yes
            } else {
                ApplyConflictPolicy::No
            },
            dry_run: parameter("dryRun").is_some(),
        })
    }

    fn with<R>(&self, run: impl FnOnce(FieldManager<'_>) -> R) -> R {
        let api_version = self.kind.api_version();
        let mut blank = Value::Object(self.kind.ty.zero());
        blank["apiVersion"] = json!(api_version);
        blank["kind"] = json!(self.kind.kind);
        let reset = if self.subresource == "status" || self.kind.kind == "CertificateSigningRequest" {
            ResetFields::Fields(FieldSet::of_fields(&[&["spec"]]))
        } else if self.kind.subresource("status").is_some() {
            ResetFields::Fields(FieldSet::of_fields(&[&["status"]]))
        } else {
            ResetFields::Nothing
        };
        run(FieldManager {
            api_version: &api_version,
            kind: &self.kind.kind,
            subresource: &self.subresource,
            typed: &self.kind.ty,
            blank: &blank,
            reset: &reset,
            versions: &SingleVersion,
        })
    }
}

const NOW: Time = Time::from_unix(1_700_000_000, 0);

impl Case {
    fn play(name: &str, case: &Value, strictness: Strictness) -> Self {
        let mut played = Self {
            name: name.to_owned(),
            strictness,
            live: None,
            exact: true,
            checked: 0,
            wrong: Vec::new(),
        };
        for step in case["steps"].as_array().into_iter().flatten() {
            if !played.step(step) {
                break;
            }
        }
        played
    }

    /// Plays a step; `false` if the following steps cannot be compared.
    fn step(&mut self, step: &Value) -> bool {
        let method = step["method"].as_str().unwrap_or_default();
        // The recorded client calls itself so, unless a step says otherwise.
        let agent = step["headers"]["User-Agent"].as_str().unwrap_or("golden");
        let agent = agent.split_once('/').map_or(agent, |(name, _)| name);
        let Some(target) = Target::parse(step["path"].as_str().unwrap_or_default(), agent) else {
            return false;
        };
        let expected = &step["expect"];
        let apply = step["headers"]["Content-Type"].as_str() == Some("application/apply-patch+yaml");
        let answer = expected["body"].as_object().map(|_| &expected["body"]);
        match (method, answer) {
            ("PATCH", Some(answer)) if apply && step["body"].is_object() => {
                self.apply(&target, &step["body"], answer);
            }
            // A body in YAML.
            ("PATCH", _) if apply => return false,
            ("POST" | "PUT" | "PATCH", Some(answer)) if answer["kind"] == target.kind.kind => {
                if !self.exact {
                    return false;
                }
                self.track(&target, &step["body"], answer);
            }
            ("POST", None) if step["body"]["kind"] == target.kind.kind => {
                let mut object = step["body"].clone();
                target.with(|subject| subject.track(None, &mut object, &target.manager, NOW));
                object["metadata"]["uid"] = json!("<uid>");
                self.live = Some(object);
                self.exact = false;
            }
            ("GET" | "DELETE", _) => {}
            _ => return target.subresource.is_empty() && expected["status"].as_u64() >= Some(400),
        }
        true
    }

    fn apply(&mut self, target: &Target, configuration: &Value, answer: &Value) {
        let result = target.with(|subject| {
            subject.apply(
                self.live.as_ref(),
                configuration,
                &target.manager,
                target.force,
                NOW,
            )
        });
        match (result, answer["kind"] == "Status") {
            (Ok(object), false) => {
                self.compare(&object, answer);
                if !target.dry_run {
                    self.live = Some(with_times(answer));
                }
            }
            (Err(error), true) => {
                self.checked += 1;
                let causes: Vec<_> = match &error {
                    ApplyError::Conflicts(conflicts) => conflicts
                        .causes()
                        .into_iter()
                        .map(|cause| {
                            json!({"reason": "FieldManagerConflict", "message": cause.message, "field": cause.field})
                        })
                        .collect(),
                    _ => Vec::new(),
                };
                let messages = (error.to_string(), u64::from(error.code()), json!(causes));
                let causes = answer["details"].get("causes").cloned().unwrap_or(json!([]));
                let recorded = (
                    answer["message"].as_str().unwrap_or_default().to_owned(),
                    answer["code"].as_u64().unwrap_or(0),
                    causes,
                );
                if messages != recorded {
                    self.wrong
                        .push(format!("{}: got {messages:?}, recorded {recorded:?}", self.name));
                }
            }
            // Refused later, by validation or admission.
            (Ok(_), true) => {}
            (Err(error), false) => self.wrong.push(format!("{}: refused: {error}", self.name)),
        }
    }

    fn track(&mut self, target: &Target, request: &Value, answer: &Value) {
        let mut object = with_times(answer);
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        target.with(|subject| subject.track(self.live.as_ref(), &mut object, &target.manager, NOW));
        if self.strictness == Strictness::WithoutAdmission {
            drop_unrecorded(&mut object, request, answer, target);
        }
        self.compare(&object, answer);
        if !target.dry_run {
            self.live = Some(with_times(answer));
        }
    }

    fn compare(&mut self, object: &Value, answer: &Value) {
        self.checked += 1;
        let found = record(object);
        let recorded = record(answer);
        if found != recorded {
            self.wrong
                .push(format!("{}: {}", self.name, difference(&found, &recorded)));
        }
    }
}

/// Takes out of a record what is neither recorded nor part of the request, and entries that are left empty.
fn drop_unrecorded(object: &mut Value, request: &Value, answer: &Value, target: &Target) {
    let asked = typed::field_set(request, &target.kind.ty);
    let recorded: FieldSet<'_> = record_sets(answer)
        .into_iter()
        .fold(FieldSet::new(), |all, set| all.union(&set));
    let Some(entries) = object["metadata"]
        .get_mut("managedFields")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    for entry in entries.iter_mut() {
        let fields = entry["fieldsV1"].take();
        let set = FieldSet::decode(&fields).expect("what was written can be read");
        let kept = set.intersection(&recorded.union(&asked));
        entry["fieldsV1"] = kept.encode();
    }
    entries.retain(|entry| entry["fieldsV1"] != json!({}));
}

fn record_sets(answer: &Value) -> Vec<FieldSet<'_>> {
    let entries = answer["metadata"]["managedFields"].as_array();
    let set = |entry| FieldSet::decode(entry).expect("records can be read");
    entries
        .into_iter()
        .flatten()
        .map(|entry| set(&entry["fieldsV1"]))
        .collect()
}

/// The lines of one record that are not in the other.
fn difference(found: &[Value], recorded: &[Value]) -> String {
    let found = lines(found);
    let recorded = lines(recorded);
    let only = |these: &[String], those: &[String]| -> String {
        let lines: Vec<_> = these
            .iter()
            .filter(|line| !those.contains(line))
            .map(String::as_str)
            .collect();
        lines.join("\n      ")
    };
    format!(
        "\n    found\n      {}\n    recorded\n      {}",
        only(&found, &recorded),
        only(&recorded, &found)
    )
}

fn lines(record: &[Value]) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in record {
        let who = format!(
            "{} {} {} {} {}",
            entry["manager"], entry["operation"], entry["apiVersion"], entry["subresource"], entry["time"]
        );
        let fields = FieldSet::decode(&entry["fieldsV1"]).expect("records can be read");
        lines.extend(fields.paths().into_iter().map(|path| format!("{who} {path}")));
        lines.push(who);
    }
    lines
}

/// The record without the times themselves, in an order that does not depend on them.
fn record(object: &Value) -> Vec<Value> {
    let mut entries = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for entry in &mut entries {
        if entry.get("time").is_some() {
            entry["time"] = json!("<time>");
        }
    }
    entries.sort_by_key(ToString::to_string);
    entries
}

/// The recorded answer with real times in its record.
fn with_times(answer: &Value) -> Value {
    let mut object = answer.clone();
    let entries = object["metadata"]
        .get_mut("managedFields")
        .and_then(Value::as_array_mut);
    for (seconds, entry) in (1..).zip(entries.into_iter().flatten()) {
        if entry.get("time").is_some() {
            entry["time"] = json!(Time::from_unix(seconds, 0).to_string());
        }
    }
    object
}

fn play(directory: &Path, categories: &[&str], strictness: Strictness) -> (usize, Vec<String>) {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for category in categories {
        let files = std::fs::read_dir(directory.join(category)).expect("a category is a directory");
        let mut files: Vec<_> = files
            .map(|file| file.expect("a file can be listed").path())
            .collect();
        files.sort();
        for file in files {
            let text = std::fs::read(&file).expect("a case can be read");
            let case: Value = serde_json::from_slice(&text).expect("a case is JSON");
            let name = format!(
                "{category}/{}",
                file.file_stem().unwrap_or_default().to_string_lossy()
            );
            let played = Case::play(&name, &case, strictness);
            checked += played.checked;
            wrong.extend(played.wrong);
        }
    }
    (checked, wrong)
}

#[test]
fn managed_fields_after_apply_match_the_recording() {
    let Some(directory) = recordings() else { return };
    let (checked, wrong) = play(&directory, &["apply"], Strictness::Exact);
    assert!(checked >= 59, "only {checked} steps could be checked");
    assert!(
        wrong.is_empty(),
        "{} of {checked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn managed_fields_after_writes_match_the_recording() {
    let Some(directory) = recordings() else { return };
    let categories = [
        "create-defaults",
        "update",
        "patch",
        "subresources",
        "field-validation",
        "delete",
    ];
    let (checked, mut wrong) = play(&directory, &categories, Strictness::WithoutAdmission);
    // The request says `[]`, which is recorded; the answer, which is all we have here, says `null`.
    wrong.retain(|wrong| !wrong.starts_with("create-defaults/limitrange-minimal"));
    assert!(checked >= 140, "only {checked} steps could be checked");
    assert!(
        wrong.is_empty(),
        "{} of {checked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
