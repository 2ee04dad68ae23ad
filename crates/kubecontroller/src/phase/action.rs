//! Actions that users request on an object, besides changing its spec.
//!
//! | action | allowed | effect |
//! | --- | --- | --- |
//! | `pause` | always | the machine does nothing until `resume` |
//! | `resume` | always | ends the pause |
//! | `continue` | always | ends the pause and removes the barrier and not-before annotations |
//! | `reset` | in a failed phase | returns to the phase that failed; clears failures, keeps what succeeded |
//! | `revert` | unless the object is terminating | returns to a phase of the normal path (the initial one by default); clears the state of that phase and of all later ones |
//! | `purge` | in a terminal phase | removes the state of all phases to make the status small; keeps the phase and its reason |
//! | `audit` | in a phase that needs approval and has not started | `Passed` starts the phase, `Rejected` fails it, `Pending` withdraws a decision |
//!
//! [`StateMachine::act`] is a function of the object alone, so a REST handler, a command line tool and a test behave the same.
//! [`StateMachine::act_on`] applies an action to an object on the API server.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    annotations::{BARRIER, NOT_BEFORE, clear_annotation},
    context::MachineEnvironment,
    object_client::{ObjectClient, WriteResult},
    state::{HandlerState, stamp},
    state_machine::StateMachine,
    status::{Approval, Audit, Phased},
    tree::clear_failed,
};
use crate::Key;

/// An action that a user requests on an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum Action {
    /// Stops all work on the object until [`Resume`](Action::Resume).
    Pause,
    /// Ends the pause.
    Resume,
    /// Ends the pause and removes the annotations that block the object.
    Continue,
    /// Returns from a failed phase to the phase that failed.
    Reset,
    /// Returns to an earlier phase.
    Revert {
        /// The phase to return to. Default: the initial phase.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    /// Removes the state of all phases from an object in a terminal phase.
    Purge,
    /// Approves or rejects a phase that needs approval.
    Audit {
        /// The decision.
        result: Approval,
        /// The user that decided.
        #[serde(default)]
        by: String,
        /// The reason for the decision.
        #[serde(default)]
        message: String,
    },
}

/// Why an action is not allowed. The object is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ActionRejection {
    /// `reset` requires a failed phase.
    #[error("phase {0:?} is not a failed phase: there is nothing to reset")]
    NotFailed(String),
    /// `reset` found no phase whose error phase is the object's phase.
    #[error("no phase has the error phase {0:?}: there is no phase to return to")]
    NoOrigin(String),
    /// `revert` requires a phase of the normal path.
    #[error("{0:?} is not a phase of the normal path")]
    NotOnPath(String),
    /// `purge` requires a terminal phase.
    #[error("phase {0:?} is not terminal: its state is still needed")]
    NotTerminal(String),
    /// `audit` requires a phase that needs approval and has not started.
    #[error("phase {0:?} does not wait for approval")]
    NoApprovalPending(String),
    /// The object is terminating.
    #[error("the object is being deleted")]
    Terminating,
    /// The action or its arguments are invalid.
    #[error("invalid action: {0}")]
    InvalidAction(String),
}

/// Why an action on an object of the API server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActionError {
    /// The object's state does not allow the action.
    #[error(transparent)]
    Rejected(#[from] ActionRejection),
    /// The object does not exist.
    #[error("{0} not found")]
    NotFound(Key),
    /// Every try conflicted with a write of another client.
    #[error("{0} was changed concurrently on every try; retry the action")]
    Conflict(Key),
    /// The API server rejected the request.
    #[error("API request failed: {0}")]
    Api(#[from] kube::Error),
}

/// How often an action is tried when other clients change the object concurrently.
const TRIES: usize = 5;

// --- Action ---

impl Action {
    /// The names of all actions, as in the serialized form.
    pub const NAMES: [&str; 7] = ["pause", "resume", "continue", "reset", "revert", "purge", "audit"];

    /// Parses an action from its name and arguments, e.g. for `PUT .../NAME/audit` with body `{"result": "Passed"}`.
    pub fn named(name: &str, arguments: Option<&Value>) -> Result<Self, ActionRejection> {
        let mut all = arguments.and_then(Value::as_object).cloned().unwrap_or_default();
        all.insert("action".to_owned(), name.into());
        serde_json::from_value(Value::Object(all))
            .map_err(|error| ActionRejection::InvalidAction(error.to_string()))
    }
}

// --- Machine ---

impl<R: Phased> StateMachine<R> {
    /// Applies an action to an object in memory.
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
                return Err(ActionRejection::NotTerminal(object.phase().to_owned()));
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
                    return Err(ActionRejection::NoApprovalPending(phase));
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

    /// Applies an action to an object on the API server and returns the updated object. If another client changes the object
    /// meanwhile, the action is applied again to the newer version.
    pub async fn act_on(
        &self,
        environment: &MachineEnvironment,
        key: &Key,
        action: &Action,
    ) -> Result<R, ActionError> {
        let remote = ObjectClient::new::<R>(environment.client(), key);
        for _ in 0..TRIES {
            let mut base: R = remote
                .get()
                .await?
                .ok_or_else(|| ActionError::NotFound(key.clone()))?;
            let mut wanted = base.clone();
            self.act(&mut wanted, action, environment.now())?;
            match remote.write_rest(&base, &wanted).await? {
                WriteResult::Unchanged => {}
                WriteResult::Written(now) => base.meta_mut().resource_version = now.resource_version(),
                WriteResult::Conflict(_) => continue,
                WriteResult::NotFound => return Err(ActionError::NotFound(key.clone())),
            }
            match remote.write_status(&base, &wanted).await? {
                WriteResult::Unchanged => return Ok(wanted),
                WriteResult::Written(now) => return Ok(now),
                WriteResult::Conflict(_) => {}
                WriteResult::NotFound => return Err(ActionError::NotFound(key.clone())),
            }
        }
        Err(ActionError::Conflict(key.clone()))
    }

    /// Returns from a failed phase to the phase whose failure led there. Failed handlers and objects are cleared as if they
    /// had never started; succeeded ones are kept and do not run again. `each` is called for every cleared handler with its
    /// path, which starts with the phase.
    pub fn reset(
        &self,
        object: &mut R,
        mut each: impl FnMut(&[String], &mut HandlerState),
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
            return Err(ActionRejection::Terminating);
        }
        let path = self.path();
        let position = path
            .iter()
            .position(|phase| *phase == to && self.get(phase).is_some());
        let position = position.ok_or_else(|| ActionRejection::NotOnPath(to.to_owned()))?;
        let status = object.phases_mut();
        let before = &path[..position];
        status.state.retain(|phase, _| before.contains(&phase.as_str()));
        status.audit.retain(|phase, _| before.contains(&phase.as_str()));
        status.reason = None;
        to.clone_into(&mut status.phase);
        Ok(())
    }

    /// The phases that an object passes when no handler fails or jumps, from the initial to a terminal one.
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
