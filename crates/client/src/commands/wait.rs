//! `k3 wait`: waits for a condition of objects.

use std::{str::FromStr, time::Duration};

use clap::Args;
use k3_jsonpath::JsonPath;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::get::report_all;
use crate::{
    age::duration_argument,
    connection::ConnectFlags,
    error::ClientError,
    output::{InvalidPath, parse_path},
    resource_builder::{ResourceInfo, SelectionFlags},
    session::CommandSession,
    watch::wait_until,
};

/// Wait for a condition on one or many resources
#[derive(Debug, Args)]
pub struct WaitFlags {
    #[command(flatten)]
    selection: SelectionFlags,

    /// The condition: `condition=NAME[=VALUE]`, `jsonpath=PATH[=VALUE]`, `delete` or `create`
    #[arg(long = "for", value_name = "CONDITION")]
    condition: WaitCondition,

    /// How long to wait; 0 checks once
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration_argument)]
    timeout: Duration,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

/// The condition to wait for.
#[derive(Clone, Debug, PartialEq)]
enum WaitCondition {
    Deleted,
    Created,
    Condition { name: String, value: String },
    JsonPath { path: JsonPath, value: Option<String> },
}

/// Why `--for` is not a condition.
#[derive(Debug, thiserror::Error)]
enum WaitConditionError {
    #[error(
        "unrecognized condition: {0:?}; expected delete, create, condition=NAME[=VALUE] or jsonpath=PATH[=VALUE]"
    )]
    Unrecognized(String),
    #[error("error: {0}")]
    InvalidPath(#[from] InvalidPath),
}

// --- WaitCondition ---

impl FromStr for WaitCondition {
    type Err = WaitConditionError;

    fn from_str(text: &str) -> Result<Self, WaitConditionError> {
        match text.split_once('=') {
            None if text.eq_ignore_ascii_case("delete") => Ok(Self::Deleted),
            None if text.eq_ignore_ascii_case("create") => Ok(Self::Created),
            Some(("condition", condition)) => {
                let (name, value) = condition.split_once('=').unwrap_or((condition, "True"));
                Ok(Self::Condition {
                    name: name.to_owned(),
                    value: value.to_owned(),
                })
            }
            Some(("jsonpath", rest)) => {
                // A filter of the path may contain an equals sign; only one outside brackets separates the value.
                let mut depth = 0;
                let end = rest.char_indices().find_map(|(at, letter)| {
                    match letter {
                        '{' | '[' | '(' => depth += 1,
                        '}' | ']' | ')' => depth -= 1,
                        _ => {}
                    }
                    (letter == '=' && depth == 0).then_some(at)
                });
                let (path, value) = end.map_or((rest, None), |at| (&rest[..at], Some(&rest[at + 1..])));
                let path = parse_path(path)?;
                let value = value.map(|value| value.trim_matches(['\'', '"']).to_owned());
                Ok(Self::JsonPath { path, value })
            }
            _ => Err(WaitConditionError::Unrecognized(text.to_owned())),
        }
    }
}

impl WaitCondition {
    /// Whether an object meets the condition; `None` is an object that does not exist.
    fn is_met(&self, object: Option<&Value>) -> bool {
        match (self, object) {
            (Self::Deleted, object) => object.is_none(),
            (Self::Created, object) => object.is_some(),
            (_, None) => false,
            (Self::Condition { name, value }, Some(object)) => {
                let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
                let has_name =
                    |text: &Value| text.as_str().is_some_and(|text| text.eq_ignore_ascii_case(name));
                let condition = conditions
                    .into_iter()
                    .find(|condition| has_name(&condition["type"]));
                condition.is_some_and(|condition| {
                    // upstream: staging/src/k8s.io/kubectl/pkg/cmd/wait/condition.go getObservedGeneration
                    // A condition of an older generation does not describe the current spec.
                    let observed = condition["observedGeneration"].as_i64();
                    let observed = observed.or_else(|| object["status"]["observedGeneration"].as_i64());
                    let is_outdated = observed
                        .zip(object["metadata"]["generation"].as_i64())
                        .is_some_and(|(observed, current)| observed < current);
                    let has_value = condition["status"]
                        .as_str()
                        .is_some_and(|status| status.eq_ignore_ascii_case(value));
                    has_value && !is_outdated
                })
            }
            (Self::JsonPath { path, value }, Some(object)) => match (path.first(object), value) {
                (None, _) => false,
                (Some(_), None) => true,
                (Some(Value::String(found)), Some(value)) => found == value,
                // Numbers and booleans are compared by their text.
                (Some(found), Some(value)) => {
                    let text = found.to_string();
                    text == *value
                }
            },
        }
    }
}

// --- WaitFlags ---

impl WaitFlags {
    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        let deadline = Instant::now() + self.timeout;
        // `--for=create` also waits for the first object of a selector to exist.
        let create_deadline = (self.condition == WaitCondition::Created).then_some(deadline);
        let infos = self.selection.resolve(session, create_deadline).await?;
        if infos.is_empty() {
            // A selector without objects satisfies `--for=delete`.
            return if self.condition == WaitCondition::Deleted {
                Ok(())
            } else {
                Err(ClientError::new("no matching resources found"))
            };
        }
        let mut failures = Vec::new();
        for info in infos {
            match self.wait(session, &info, deadline).await {
                Ok(()) => session.print_line(format_args!("{} condition met", info.title()))?,
                Err(failed) => failures.push(failed),
            }
        }
        report_all(failures)
    }

    async fn wait(
        &self,
        session: &CommandSession,
        info: &ResourceInfo,
        deadline: Instant,
    ) -> Result<(), ClientError> {
        let mut existed = false;
        let mut is_met = |object: Option<&Value>| {
            if self.condition.is_met(object) {
                return Ok(Some(true));
            }
            if object.is_none() && self.condition != WaitCondition::Created {
                // An object that does not exist never meets the condition.
                return if existed {
                    Err(deleted_error(info))
                } else {
                    Ok(Some(false))
                };
            }
            existed = true;
            Ok(self.timeout.is_zero().then_some(false))
        };
        let timeout_error = || {
            let plural = info.resource.plural_noun();
            ClientError::new(format!(
                "timed out waiting for the condition on {plural}/{}",
                info.name()
            ))
        };
        let collection = info.collection();
        let result = wait_until(&session.api, &collection, info.name(), &mut is_met);
        let result = if self.timeout.is_zero() {
            result.await
        } else {
            timeout_at(deadline, result).await.map_err(|_| timeout_error())?
        };
        if result? {
            return Ok(());
        }
        if !existed {
            // Request the object to report the server's own error.
            session.api.get(&info.path()).await?;
        }
        Err(timeout_error())
    }
}

fn deleted_error(info: &ResourceInfo) -> ClientError {
    ClientError::new(format!(
        "{} was deleted before the condition was met",
        info.title()
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_met(condition: &str, object: Option<&Value>) -> bool {
        condition.parse::<WaitCondition>().unwrap().is_met(object)
    }

    #[test]
    fn evaluates_conditions() {
        let pod = json!({"metadata": {"generation": 2}, "status": {"phase": "Running", "n": 3,
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "True", "observedGeneration": 1}]}});
        for condition in [
            "condition=Ready",
            "condition=ready=true",
            "jsonpath={.status.phase}=Running",
            "jsonpath='{.status.phase}'=Running",
            "jsonpath=.status.n=3",
            "jsonpath={.status.phase}",
            r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}=True"#,
            "create",
        ] {
            let condition = condition.replace('\'', "");
            assert!(is_met(&condition, Some(&pod)), "{condition}");
        }
        for condition in [
            "condition=Ready=False",
            "condition=Old",
            "condition=Other",
            "jsonpath={.status.phase}=Pending",
            "jsonpath={.status.none}",
            "delete",
        ] {
            assert!(!is_met(condition, Some(&pod)), "{condition}");
        }
        assert!(is_met("delete", None) && !is_met("create", None) && !is_met("condition=Ready", None));
    }

    #[test]
    fn rejects_invalid_conditions() {
        for condition in ["", "ready", "condition", "jsonpath={.a", "foo=bar"] {
            assert!(condition.parse::<WaitCondition>().is_err(), "{condition}");
        }
    }

    #[test]
    fn a_condition_of_an_older_generation_is_not_met() {
        let object = |generation: i64, observed: i64| {
            json!({"metadata": {"generation": generation}, "status": {"observedGeneration": observed,
                "conditions": [{"type": "Available", "status": "True"}]}})
        };
        assert!(is_met("condition=Available", Some(&object(2, 2))));
        assert!(!is_met("condition=Available", Some(&object(3, 2))));
        // The condition's own generation goes before that of the status.
        let own = json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2,
            "conditions": [{"type": "Available", "status": "True", "observedGeneration": 3}]}});
        assert!(is_met("condition=Available", Some(&own)));
    }

    #[test]
    fn values_of_paths_may_have_equals_signs_and_quotes() {
        let object = json!({"metadata": {"labels": {"a": "b=c", "n": "1"}}, "spec": {"flag": true}});
        for condition in [
            "jsonpath={.metadata.labels.a}=b=c",
            "jsonpath={.metadata.labels.n}='1'",
            "jsonpath={.metadata.labels.n}=\"1\"",
            "jsonpath={.spec.flag}=true",
        ] {
            assert!(is_met(condition, Some(&object)), "{condition}");
        }
        assert!(!is_met("jsonpath={.metadata.labels.a}=b", Some(&object)));
        assert!(!is_met("jsonpath={.metadata.labels.a}=", Some(&object)));
    }
}
