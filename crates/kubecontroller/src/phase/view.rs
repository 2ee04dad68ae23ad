//! The progress of an object, for user interfaces.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    handler::{HandlerView, PhaseHandler},
    state::{Completion, HandlerResult, HandlerState, ObjectState},
    state_machine::StateMachine,
    status::Phased,
};

/// The progress of an object through its phases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusView {
    /// The phases of the normal path, and how far each is.
    /// The phases of the normal path with the progress of each.
    pub phases_summary: Vec<PhaseSummary>,
    /// Details of the phase that the object is in, or failed in.
    pub phase_detail: PhaseDetail,
}

/// The progress of one phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseSummary {
    /// The name of the phase; `Done` for the terminal phase of the path.
    pub phase: String,
    /// The description of the phase, or of its handler.
    pub desc: String,
    /// The progress of the phase.
    pub result: HandlerResult,
    /// When the phase ended; if it has not ended, when it started.
    pub timestamp: Option<MicroTime>,
}

/// The details of one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseDetail {
    /// How to present the data.
    pub view: HandlerView,
    /// A [`ChecklistItem`], a map of objects by id, a [`HandlerProgress`], or null.
    pub data: Value,
}

/// A handler as an item of a checklist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChecklistItem {
    /// The progress of the handler.
    pub result: HandlerResult,
    /// The description of the handler, or its name.
    pub desc: String,
    /// When the handler ended; if it has not ended, when it started.
    pub timestamp: Option<MicroTime>,
    /// The items of the child handlers.
    pub checks: Vec<ChecklistItem>,
}

/// A share of completed work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HandlerProgress {
    /// The number of completed items.
    pub done_count: usize,
    /// The number of all items.
    pub total_count: usize,
    /// The completed share in percent, rounded down.
    pub percent: usize,
}

// --- HandlerProgress ---

impl HandlerProgress {
    /// Calculates the percentage. No items at all count as 100 %.
    pub fn new(done: usize, total: usize) -> Self {
        let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100);
        HandlerProgress {
            done_count: done,
            total_count: total,
            percent,
        }
    }
}

// --- Machine ---

impl<R: Phased> StateMachine<R> {
    /// The progress of an object: a summary of all phases and the details of the current one.
    pub fn view(&self, object: &R) -> StatusView {
        let phase_detail = self.detail(object, self.working_phase(object));
        StatusView {
            phases_summary: self.summary(object),
            phase_detail,
        }
    }

    /// The phases of the normal path with the progress of each.
    pub fn summary(&self, object: &R) -> Vec<PhaseSummary> {
        let has_state = object.phases().is_some_and(|status| !status.state.is_empty());
        let purged = self.is_terminal(object) && !self.is_failed(object) && !has_state;
        let summary = self.path().into_iter().map(|name| {
            let Some(phase) = self.get(name) else {
                return self.end(object, name);
            };
            let handler_desc = || {
                phase
                    .handler
                    .as_ref()
                    .map(|handler| handler.desc.clone())
                    .unwrap_or_default()
            };
            let state = state_of(object, name);
            PhaseSummary {
                phase: name.to_owned(),
                desc: if phase.desc.is_empty() {
                    handler_desc()
                } else {
                    phase.desc.clone()
                },
                // A purged object has no state any more, but it ended successfully, so every phase of its path did.
                result: match state {
                    Some(state) => state.result(),
                    None if purged => HandlerResult::Succeeded,
                    None => HandlerResult::Pending,
                },
                timestamp: state.and_then(HandlerState::timestamp).cloned(),
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

    /// The details of a phase, in the form that its handler declares.
    pub fn detail(&self, object: &R, phase: &str) -> PhaseDetail {
        let Some(handler) = self.get(phase).and_then(|phase| phase.handler.as_ref()) else {
            return PhaseDetail {
                view: HandlerView::None,
                data: Value::Null,
            };
        };
        let blank = handler.blank();
        let state = state_of(object, phase).unwrap_or(&blank);
        let data = match handler.view {
            HandlerView::None => Value::Null,
            HandlerView::Checklist => json!(checklist(handler, state)),
            HandlerView::ObjectDetail => {
                let shown = found(handler, state).map(|(handler, one)| {
                    let details = handler.details.as_ref();
                    (
                        one.id.clone(),
                        details.map_or_else(|| details_of(one), |details| details(object, one)),
                    )
                });
                json!(shown.collect::<BTreeMap<_, _>>())
            }
            HandlerView::Progress => json!(
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

fn state_of<'o, R: Phased>(object: &'o R, phase: &str) -> Option<&'o HandlerState> {
    object.phases()?.state.get(phase)
}

fn checklist<R>(handler: &PhaseHandler<R>, state: &HandlerState) -> ChecklistItem {
    let children = handler
        .children()
        .iter()
        .map(|child| match state.state.get(&child.name) {
            Some(state) => checklist(child, state),
            None => checklist(child, &child.blank()),
        });
    ChecklistItem {
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

/// All objects in a tree of handlers, each with the handler it belongs to.
fn found<'t, R>(
    handler: &'t PhaseHandler<R>,
    state: &'t HandlerState,
) -> Box<dyn Iterator<Item = (&'t PhaseHandler<R>, &'t ObjectState)> + 't> {
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

/// Counts completed objects, or, if there are none, completed functions.
fn counted<R>(handler: &PhaseHandler<R>, state: &HandlerState) -> HandlerProgress {
    let objects: Vec<bool> = found(handler, state).map(|(_, object)| object.done).collect();
    let all = if objects.is_empty() {
        functions(handler, Some(state))
    } else {
        objects
    };
    HandlerProgress::new(all.iter().filter(|done| **done).count(), all.len())
}

fn functions<R>(handler: &PhaseHandler<R>, state: Option<&HandlerState>) -> Vec<bool> {
    if handler.children().is_empty() {
        return vec![state.is_some_and(|state| state.completion() == Completion::Succeeded)];
    }
    let below = |child: &PhaseHandler<R>| state.and_then(|state| state.state.get(&child.name));
    handler
        .children()
        .iter()
        .flat_map(|child| functions(child, below(child)))
        .collect()
}
