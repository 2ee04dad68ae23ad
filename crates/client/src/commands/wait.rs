//! `k3 wait`: until objects are as they should be.

use std::{str::FromStr, time::Duration};

use clap::Args;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::get::report;
use crate::{
    age::duration_argument,
    connection::ConnectFlags,
    failed::Failed,
    jsonpath::Path,
    pick::{ChosenFlags, Pick},
    session::Session,
    watch::until,
};

/// Wait until objects are as they should be
#[derive(Debug, Args)]
pub struct WaitFlags {
    #[command(flatten)]
    chosen: ChosenFlags,

    /// `condition=NAME[=VALUE]`, `jsonpath=PATH[=VALUE]`, `delete` or `create`
    #[arg(long = "for", value_name = "WHAT")]
    wish: Wish,

    /// Give up after this long; 0 looks once
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration_argument)]
    timeout: Duration,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

/// How an object should be.
#[derive(Clone, Debug, PartialEq)]
enum Wish {
    Gone,
    There,
    Condition { name: String, value: String },
    Path { path: Path, value: Option<String> },
}

// --- Wish ---

impl FromStr for Wish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text.eq_ignore_ascii_case("delete") => Ok(Self::Gone),
            None if text.eq_ignore_ascii_case("create") => Ok(Self::There),
            Some(("condition", condition)) => {
                let (name, value) = condition.split_once('=').unwrap_or((condition, "True"));
                Ok(Self::Condition {
                    name: name.to_owned(),
                    value: value.to_owned(),
                })
            }
            Some(("jsonpath", rest)) => {
                // The path may have an equals sign of its own in a filter: only one outside of brackets ends it.
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
                let path = Path::parse(path).map_err(|failed| failed.to_string())?;
                let value = value.map(|value| value.trim_matches(['\'', '"']).to_owned());
                Ok(Self::Path { path, value })
            }
            _ => Err(format!(
                "unrecognized condition: {text:?}; write delete, create, condition=NAME[=VALUE] or jsonpath=PATH[=VALUE]"
            )),
        }
    }
}

impl Wish {
    /// Whether an object is so; nothing stands for one that is not there.
    fn is_met(&self, object: Option<&Value>) -> bool {
        match (self, object) {
            (Self::Gone, object) => object.is_none(),
            (Self::There, object) => object.is_some(),
            (_, None) => false,
            (Self::Condition { name, value }, Some(object)) => {
                let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
                let has_name =
                    |text: &Value| text.as_str().is_some_and(|text| text.eq_ignore_ascii_case(name));
                let condition = conditions
                    .into_iter()
                    .find(|condition| has_name(&condition["type"]));
                condition.is_some_and(|condition| {
                    // What was seen of an older generation says nothing of this one.
                    let seen = condition["observedGeneration"].as_i64();
                    let seen = seen.or_else(|| object["status"]["observedGeneration"].as_i64());
                    let is_old = seen
                        .zip(object["metadata"]["generation"].as_i64())
                        .is_some_and(|(seen, now)| seen < now);
                    let is_so = condition["status"]
                        .as_str()
                        .is_some_and(|status| status.eq_ignore_ascii_case(value));
                    is_so && !is_old
                })
            }
            (Self::Path { path, value }, Some(object)) => match (path.first(object), value) {
                (None, _) => false,
                (Some(_), None) => true,
                (Some(Value::String(found)), Some(value)) => found == value,
                (Some(found), Some(value)) => {
                    // The text of a number or the like: as values they differ.
                    let told = found.to_string();
                    told == *value
                }
            },
        }
    }
}

// --- WaitFlags ---

impl WaitFlags {
    pub(crate) async fn run(&self, session: &Session) -> Result<(), Failed> {
        let deadline = Instant::now() + self.timeout;
        // Whoever waits for the first to be there waits.
        let patience = (self.wish == Wish::There).then_some(deadline);
        let picks = self.chosen.picks(session, patience).await?;
        if picks.is_empty() {
            // What is not there is gone already.
            return if self.wish == Wish::Gone {
                Ok(())
            } else {
                Err(Failed::new("no matching resources found"))
            };
        }
        let mut failures = Vec::new();
        for pick in picks {
            match self.wait(session, &pick, deadline).await {
                Ok(()) => session.say(format_args!("{} condition met", pick.title()))?,
                Err(failed) => failures.push(failed),
            }
        }
        report(failures)
    }

    async fn wait(&self, session: &Session, pick: &Pick, deadline: Instant) -> Result<(), Failed> {
        let mut was_there = false;
        let mut is_met = |object: Option<&Value>| {
            if self.wish.is_met(object) {
                return Ok(Some(true));
            }
            let is_gone = object.is_none();
            if is_gone && self.wish != Wish::There {
                // Waiting for something to become of what is not there would be for ever.
                return if was_there {
                    Err(gone(pick))
                } else {
                    Ok(Some(false))
                };
            }
            was_there = true;
            Ok(self.timeout.is_zero().then_some(false))
        };
        let late = || {
            let plural = pick.resource.plural_noun();
            Failed::new(format!(
                "timed out waiting for the condition on {plural}/{}",
                pick.name()
            ))
        };
        let collection = pick.collection();
        let waited = until(&session.api, &collection, pick.name(), &mut is_met);
        let answer = if self.timeout.is_zero() {
            waited.await
        } else {
            timeout_at(deadline, waited).await.map_err(|_| late())?
        };
        if answer? {
            return Ok(());
        }
        if !was_there {
            // The server says it best.
            session.api.get(&pick.path()).await?;
        }
        Err(late())
    }
}

fn gone(pick: &Pick) -> Failed {
    Failed::new(format!("{} was deleted while it was waited for", pick.title()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_met(wish: &str, object: Option<&Value>) -> bool {
        wish.parse::<Wish>().unwrap().is_met(object)
    }

    #[test]
    fn wishes_are_met_by_objects_that_are_so() {
        let pod = json!({"metadata": {"generation": 2}, "status": {"phase": "Running", "n": 3,
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "True", "observedGeneration": 1}]}});
        for wish in [
            "condition=Ready",
            "condition=ready=true",
            "jsonpath={.status.phase}=Running",
            "jsonpath='{.status.phase}'=Running",
            "jsonpath=.status.n=3",
            "jsonpath={.status.phase}",
            r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}=True"#,
            "create",
        ] {
            let wish = wish.replace('\'', "");
            assert!(is_met(&wish, Some(&pod)), "{wish}");
        }
        for wish in [
            "condition=Ready=False",
            "condition=Old",
            "condition=Other",
            "jsonpath={.status.phase}=Pending",
            "jsonpath={.status.none}",
            "delete",
        ] {
            assert!(!is_met(wish, Some(&pod)), "{wish}");
        }
        assert!(is_met("delete", None) && !is_met("create", None) && !is_met("condition=Ready", None));
    }

    #[test]
    fn wishes_that_make_no_sense_are_refused() {
        for wish in ["", "ready", "condition", "jsonpath={.a", "foo=bar"] {
            assert!(wish.parse::<Wish>().is_err(), "{wish}");
        }
    }
}
