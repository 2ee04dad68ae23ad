//! What users see of an object's progress.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    handler::{Handler, View},
    machine::Machine,
    state::{HandlerResult, ObjectState, State},
    status::Phased,
};

/// What users see of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusView {
    /// The phases of the normal path, and how far each is.
    pub phases_summary: Vec<PhaseSummary>,
    /// More of the phase the object is in, or failed in.
    pub phase_detail: PhaseDetail,
}

/// How far a phase is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseSummary {
    /// Its name; `Done` for the one where the path ends.
    pub phase: String,
    /// What it is, in words.
    pub desc: String,
    /// How far it is.
    pub result: HandlerResult,
    /// When it ended, or else began.
    pub timestamp: Option<MicroTime>,
}

/// More of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseDetail {
    /// How it is looked at.
    pub view: View,
    /// A [`Check`], a map of objects by id, a [`Progress`], or nothing.
    pub data: Value,
}

/// A handler as a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// How far it is.
    pub result: HandlerResult,
    /// What it is, in words; else its name.
    pub desc: String,
    /// When it ended, or else began.
    pub timestamp: Option<MicroTime>,
    /// Its children.
    pub checks: Vec<Check>,
}

/// How much of something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// What is done.
    pub done_count: usize,
    /// Of how much.
    pub total_count: usize,
    /// The same in percent, rounded down.
    pub percent: usize,
}

// --- Progress ---

impl Progress {
    /// So much of so much. Of nothing all is done.
    pub fn new(done: usize, total: usize) -> Self {
        let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100);
        Progress {
            done_count: done,
            total_count: total,
            percent,
        }
    }
}

// --- Machine ---

impl<R: Phased> Machine<R> {
    /// What users see of an object.
    pub fn view(&self, object: &R) -> StatusView {
        let phase_detail = self.detail(object, self.working_phase(object));
        StatusView {
            phases_summary: self.summary(object),
            phase_detail,
        }
    }

    /// The phases of the normal path, and how far each is.
    pub fn summary(&self, object: &R) -> Vec<PhaseSummary> {
        let known_of = object.phases().is_some_and(|status| !status.state.is_empty());
        let purged = self.is_terminal(object) && !self.is_failed(object) && !known_of;
        let summary = self.path().into_iter().map(|name| {
            let Some(phase) = self.get(name) else {
                return self.end(object, name);
            };
            let of_handler = || {
                phase
                    .handler
                    .as_ref()
                    .map(|handler| handler.desc.clone())
                    .unwrap_or_default()
            };
            let state = known(object, name);
            PhaseSummary {
                phase: name.to_owned(),
                desc: if phase.desc.is_empty() {
                    of_handler()
                } else {
                    phase.desc.clone()
                },
                // Of a purged object nothing is known but that all went well.
                result: match state {
                    Some(state) => state.result(),
                    None if purged => HandlerResult::Succeeded,
                    None => HandlerResult::Pending,
                },
                timestamp: state.and_then(State::timestamp).cloned(),
            }
        });
        summary.collect()
    }

    fn end(&self, object: &R, name: &str) -> PhaseSummary {
        let here = object.phase() == name;
        let result = match (here, self.is_failed(object)) {
            (false, _) => HandlerResult::Pending,
            (true, true) => HandlerResult::Failed,
            (true, false) => HandlerResult::Succeeded,
        };
        let ends = object
            .phases()
            .into_iter()
            .flat_map(|status| status.state.values());
        let last = ends.filter_map(|state| state.end_time.as_ref()).max();
        let timestamp = last.filter(|_| here).cloned();
        PhaseSummary {
            phase: "Done".to_owned(),
            desc: String::new(),
            result,
            timestamp,
        }
    }

    /// More of a phase, as its handler says it is looked at.
    pub fn detail(&self, object: &R, phase: &str) -> PhaseDetail {
        let Some(handler) = self.get(phase).and_then(|phase| phase.handler.as_ref()) else {
            return PhaseDetail {
                view: View::None,
                data: Value::Null,
            };
        };
        let blank = handler.blank();
        let state = known(object, phase).unwrap_or(&blank);
        let data = match handler.view {
            View::None => Value::Null,
            View::Checklist => json!(checklist(handler, state)),
            View::ObjectDetail => {
                let shown = found(handler, state).map(|(handler, one)| {
                    let details = handler.details.as_ref();
                    (
                        one.id.clone(),
                        details.map_or_else(|| details_of(one), |details| details(object, one)),
                    )
                });
                json!(shown.collect::<BTreeMap<_, _>>())
            }
            View::Progress => json!(
                handler
                    .progress
                    .as_ref()
                    .map_or_else(|| counted(handler, state), |progress| progress(object, state))
            ),
        };
        PhaseDetail {
            view: handler.view,
            data,
        }
    }
}

fn known<'o, R: Phased>(object: &'o R, phase: &str) -> Option<&'o State> {
    object.phases()?.state.get(phase)
}

fn checklist<R>(handler: &Handler<R>, state: &State) -> Check {
    let children = handler
        .children()
        .iter()
        .map(|child| match state.state.get(&child.name) {
            Some(state) => checklist(child, state),
            None => checklist(child, &child.blank()),
        });
    Check {
        result: state.result(),
        desc: if handler.desc.is_empty() {
            handler.name.clone()
        } else {
            handler.desc.clone()
        },
        timestamp: state.timestamp().cloned(),
        checks: children.collect(),
    }
}

/// All objects of a tree, each with the handler it belongs to.
fn found<'t, R>(
    handler: &'t Handler<R>,
    state: &'t State,
) -> Box<dyn Iterator<Item = (&'t Handler<R>, &'t ObjectState)> + 't> {
    let children = handler
        .children()
        .iter()
        .filter_map(|child| Some((child, state.state.get(&child.name)?)));
    let below = children.flat_map(|(child, state)| found(child, state));
    Box::new(
        state
            .objects
            .iter()
            .map(move |object| (handler, object))
            .chain(below),
    )
}

fn details_of(object: &ObjectState) -> Value {
    let mut details = json!(object);
    if let Some(details) = details.as_object_mut() {
        details.remove("done");
        details.insert("result".to_owned(), json!(object.result()));
    }
    details
}

/// Objects that are done if there are any, else functions.
fn counted<R>(handler: &Handler<R>, state: &State) -> Progress {
    let objects: Vec<bool> = found(handler, state).map(|(_, object)| object.done).collect();
    let all = if objects.is_empty() {
        functions(handler, Some(state))
    } else {
        objects
    };
    Progress::new(all.iter().filter(|done| **done).count(), all.len())
}

fn functions<R>(handler: &Handler<R>, state: Option<&State>) -> Vec<bool> {
    if handler.children().is_empty() {
        return vec![state.is_some_and(|state| state.done && !state.failed)];
    }
    let below = |child: &Handler<R>| state.and_then(|state| state.state.get(&child.name));
    handler
        .children()
        .iter()
        .flat_map(|child| functions(child, below(child)))
        .collect()
}
