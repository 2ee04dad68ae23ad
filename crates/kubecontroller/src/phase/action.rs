//! What users can ask of an object besides changing its spec.
//!
//! | action | allowed | effect |
//! | --- | --- | --- |
//! | `pause` | always | nothing is done until resumed |
//! | `resume` | always | the pause ends |
//! | `continue` | always | the pause ends, and the barrier and not-before annotations are taken away |
//! | `reset` | in a failed phase | back to the phase that failed; failures are forgotten, what succeeded is kept |
//! | `revert` | not while being deleted | back to a phase of the normal path (the initial one if none is named); what is known of it and of those after it is forgotten |
//! | `purge` | in a terminal phase | what is known of the phases is forgotten, and the status is small; the phase and its reason stay |
//! | `audit` | in a phase that needs approval and has not begun | `Passed` lets it begin, `Rejected` makes it fail, `Pending` takes a decision back |
//!
//! Each is a function of the object alone ([`Machine::act`]), so a REST layer, a command and a test do the same;
//! [`Machine::act_on`] does it to an object of a server.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    annotations::{BARRIER, NOT_BEFORE, clear_annotation},
    context::MachineEnvironment,
    machine::Machine,
    persist::{Remote, WriteResult},
    state::{State, stamp},
    status::{Approval, Audit, Phased},
    tree::clear_failed,
};
use crate::Key;

/// What users can ask of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum Action {
    /// Nothing is done until resumed.
    Pause,
    /// The pause ends.
    Resume,
    /// The pause ends, and what annotations hold up goes on.
    Continue,
    /// From a failed phase back to the one that failed.
    Reset,
    /// Back to an earlier phase, or to the initial one.
    Revert {
        /// The phase.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    /// What is known of an ended object's phases is forgotten.
    Purge,
    /// A decision about a phase that needs approval.
    Audit {
        /// The decision.
        result: Approval,
        /// Who decided.
        #[serde(default)]
        by: String,
        /// Why.
        #[serde(default)]
        message: String,
    },
}

/// Why an action was not done. The object is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ActionRejection {
    /// A reset of an object that has not failed.
    #[error("phase {0:?} is not a failed phase: there is nothing to reset")]
    NotFailed(String),
    /// A reset from a failed phase that no failure leads to.
    #[error("no phase fails into {0:?}: there is nothing to go back to")]
    NoOrigin(String),
    /// A revert to something that is not a phase of the normal path.
    #[error("{0:?} is not a phase of the normal path")]
    NotOnPath(String),
    /// A purge of an object that is still worked on.
    #[error("phase {0:?} is not terminal: what is known of it is still needed")]
    NotEnded(String),
    /// A decision about a phase that needs none, or no longer.
    #[error("phase {0:?} does not wait for approval")]
    NotWaiting(String),
    /// The object is being deleted.
    #[error("the object is being deleted")]
    Going,
    /// There is no such action.
    #[error("no such action: {0}")]
    Unknown(String),
}

/// Why an action was not done to an object of a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActionError {
    /// The object does not allow it.
    #[error(transparent)]
    ActionRejection(#[from] ActionRejection),
    /// There is no such object.
    #[error("{0} is not there")]
    Missing(Key),
    /// Others changed the object again and again while it was being done.
    #[error("{0} is changed by too many at once")]
    Contended(Key),
    /// The server did not do it.
    #[error("the server refused the change")]
    Server(#[from] kube::Error),
}

/// How often an action is done again because others changed the object meanwhile.
const TRIES: usize = 5;

// --- Action ---

impl Action {
    /// The names of all actions.
    pub const NAMES: [&str; 7] = ["pause", "resume", "continue", "reset", "revert", "purge", "audit"];

    /// The action of that name, with its arguments; for requests like `PUT .../NAME/audit` with `{"result": "Passed"}`.
    pub fn named(name: &str, arguments: Option<&Value>) -> Result<Self, ActionRejection> {
        let mut all = arguments.and_then(Value::as_object).cloned().unwrap_or_default();
        all.insert("action".to_owned(), name.into());
        serde_json::from_value(Value::Object(all))
            .map_err(|error| ActionRejection::Unknown(error.to_string()))
    }
}

// --- Machine ---

impl<R: Phased> Machine<R> {
    /// Does what was asked to an object in memory.
    pub fn act(&self, object: &mut R, action: &Action, now: Timestamp) -> Result<(), ActionRejection> {
        match action {
            Action::Pause => object.set_pause(true),
            Action::Resume => object.set_pause(false),
            Action::Continue => {
                object.set_pause(false);
                clear_annotation(object, BARRIER);
                clear_annotation(object, NOT_BEFORE);
            }
            Action::Reset => self.reset(object, |_, _| {})?,
            Action::Revert { to } => self.revert(object, to.as_deref().unwrap_or(&self.initial))?,
            Action::Purge if !self.is_terminal(object) => {
                return Err(ActionRejection::NotEnded(object.phase().to_owned()));
            }
            Action::Purge => {
                let status = object.phases_mut();
                status.state.clear();
                status.audit.clear();
            }
            Action::Audit { result, by, message } => {
                let phase = self.phase_of(object).to_owned();
                let begun = object.phases().and_then(|status| status.state.get(&phase));
                let begun = begun.is_some_and(|state| state.start_time.is_some());
                if begun || !self.get(&phase).is_some_and(|phase| phase.approval) {
                    return Err(ActionRejection::NotWaiting(phase));
                }
                let time = (*result != Approval::Pending).then(|| stamp(now));
                let audit = Audit {
                    result: *result,
                    by: by.clone(),
                    message: message.clone(),
                    time,
                };
                object.phases_mut().audit.insert(phase, audit);
            }
        }
        Ok(())
    }

    /// Does what was asked to an object of a server; the object as it is then. If others change it meanwhile, the action is
    /// done to what they made of it.
    pub async fn act_on(
        &self,
        environment: &MachineEnvironment,
        key: &Key,
        action: &Action,
    ) -> Result<R, ActionError> {
        let remote = Remote::new::<R>(environment.client(), key);
        for _ in 0..TRIES {
            let mut base: R = remote
                .get()
                .await?
                .ok_or_else(|| ActionError::Missing(key.clone()))?;
            let mut wanted = base.clone();
            self.act(&mut wanted, action, environment.now())?;
            match remote.write_rest(&base, &wanted).await? {
                WriteResult::Same => {}
                WriteResult::Now(now) => base.meta_mut().resource_version = now.resource_version(),
                WriteResult::Overtaken(_) => continue,
                WriteResult::Gone => return Err(ActionError::Missing(key.clone())),
            }
            match remote.write_status(&base, &wanted).await? {
                WriteResult::Same => return Ok(wanted),
                WriteResult::Now(now) => return Ok(now),
                WriteResult::Overtaken(_) => {}
                WriteResult::Gone => return Err(ActionError::Missing(key.clone())),
            }
        }
        Err(ActionError::Contended(key.clone()))
    }

    /// From a failed phase back to the one whose failure led there. Failed handlers and objects become as if not begun,
    /// succeeded ones are kept and not run again. `each` is told of every handler that is cleared, with the names that lead
    /// to it, the phase first.
    pub fn reset(
        &self,
        object: &mut R,
        mut each: impl FnMut(&[String], &mut State),
    ) -> Result<(), ActionRejection> {
        let failed = object.phase().to_owned();
        if !self.is_failed(object) {
            return Err(ActionRejection::NotFailed(failed));
        }
        let status = object.phases_mut();
        let origin = self
            .origin(status)
            .map(str::to_owned)
            .ok_or(ActionRejection::NoOrigin(failed))?;
        if let Some(state) = status.state.get_mut(&origin) {
            clear_failed(state, &mut vec![origin.clone()], &mut each);
        }
        status.audit.remove(&origin);
        status.reason = None;
        status.phase = origin;
        Ok(())
    }

    fn revert(&self, object: &mut R, to: &str) -> Result<(), ActionRejection> {
        if object.meta().deletion_timestamp.is_some() {
            return Err(ActionRejection::Going);
        }
        let path = self.path();
        let known = path
            .iter()
            .position(|phase| *phase == to && self.get(phase).is_some());
        let known = known.ok_or_else(|| ActionRejection::NotOnPath(to.to_owned()))?;
        let status = object.phases_mut();
        let before = &path[..known];
        status.state.retain(|phase, _| before.contains(&phase.as_str()));
        status.audit.retain(|phase, _| before.contains(&phase.as_str()));
        status.reason = None;
        to.clone_into(&mut status.phase);
        Ok(())
    }

    /// The phases an object passes when all goes well, each once.
    pub fn path(&self) -> Vec<&str> {
        let mut path: Vec<&str> = Vec::new();
        let mut next = Some(self.initial.as_str());
        while let Some(phase) = next.filter(|phase| !path.contains(phase)) {
            path.push(phase);
            next = self.get(phase).and_then(|phase| phase.then.as_deref());
        }
        path
    }
}
