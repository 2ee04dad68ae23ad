//! `k3 rollout`: manages the rollouts of workloads.

mod history;
mod progress;
mod undo;

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::time::timeout;

use self::progress::RolloutProgress;
use crate::{
    age::{self, duration_argument},
    api::STRATEGIC,
    connection::ConnectFlags,
    error::ClientError,
    resource_builder::{FileFlags, ResourceInfo},
    session::CommandSession,
    watch::wait_until,
};

/// Manage the rollout of a deployment, daemon set or stateful set
#[derive(Debug, Args)]
pub struct RolloutFlags {
    #[command(subcommand)]
    command: RolloutCommand,
}

#[derive(Debug, Subcommand)]
enum RolloutCommand {
    /// Show the status of the rollout
    Status {
        #[command(flatten)]
        target: RolloutTarget,

        /// Watch the status of the rollout until it is done
        #[arg(short, long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1,
            require_equals = true, action = clap::ArgAction::Set)]
        watch: bool,

        /// How long to watch; 0 watches forever
        #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration_argument)]
        timeout: Duration,
    },
    /// Undo a previous rollout
    Undo {
        #[command(flatten)]
        target: RolloutTarget,

        /// Revision to roll back to; 0 is the previous revision
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        to_revision: i64,
    },
    /// Restart the pods by a rolling update
    Restart {
        #[command(flatten)]
        target: RolloutTarget,
    },
    /// Mark a deployment as paused
    Pause {
        #[command(flatten)]
        target: RolloutTarget,
    },
    /// Resume a paused deployment
    Resume {
        #[command(flatten)]
        target: RolloutTarget,
    },
    /// View rollout history
    History {
        #[command(flatten)]
        target: RolloutTarget,

        /// Show the details of this revision, including its pod template
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        revision: i64,
    },
}

/// The workloads of a rollout command.
#[derive(Debug, Args)]
pub(crate) struct RolloutTarget {
    /// Workloads: `deployment web`, `ds/agent`, `sts/db`
    #[arg(value_name = "TYPE[/NAME]")]
    what: Vec<String>,

    #[command(flatten)]
    files: FileFlags,

    #[command(flatten)]
    connection: ConnectFlags,
}

/// When `rollout status` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusUntil {
    FirstReport,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PauseChange {
    Pause,
    Resume,
}

// --- RolloutFlags ---

impl RolloutFlags {
    fn target(&self) -> &RolloutTarget {
        match &self.command {
            RolloutCommand::Status { target, .. }
            | RolloutCommand::Undo { target, .. }
            | RolloutCommand::Restart { target }
            | RolloutCommand::Pause { target }
            | RolloutCommand::Resume { target }
            | RolloutCommand::History { target, .. } => target,
        }
    }

    pub(crate) fn connection(&self) -> &ConnectFlags {
        &self.target().connection
    }

    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        let target = self.target();
        for info in session.resolve_named(&target.what, &target.files).await? {
            match &self.command {
                RolloutCommand::Status { watch, timeout, .. } => {
                    let until = if *watch {
                        StatusUntil::Done
                    } else {
                        StatusUntil::FirstReport
                    };
                    status(session, &info, until, *timeout).await?;
                }
                RolloutCommand::Undo { to_revision, .. } => undo::undo(session, &info, *to_revision).await?,
                RolloutCommand::Restart { .. } => restart(session, &info).await?,
                RolloutCommand::Pause { .. } => set_paused(session, &info, PauseChange::Pause).await?,
                RolloutCommand::Resume { .. } => set_paused(session, &info, PauseChange::Resume).await?,
                RolloutCommand::History { revision, .. } => history::show(session, &info, *revision).await?,
            }
        }
        Ok(())
    }
}

async fn status(
    session: &CommandSession,
    info: &ResourceInfo,
    until: StatusUntil,
    limit: Duration,
) -> Result<(), ClientError> {
    let kind = info.resource.kind.clone();
    let mut last_line = String::new();
    let is_done = |object: Option<&Value>| {
        let Some(object) = object else {
            return Ok(Some(false));
        };
        let (line, is_done) = match progress::rollout_progress(&kind, object)? {
            RolloutProgress::InProgress(line) => (line, false),
            RolloutProgress::Complete(line) => (line, true),
        };
        if line != last_line {
            session.print_line(&line)?;
            last_line = line;
        }
        Ok((is_done || until == StatusUntil::FirstReport).then_some(true))
    };
    let collection = info.collection();
    let result = wait_until(&session.api, &collection, info.name(), is_done);
    let exists = if limit.is_zero() {
        result.await?
    } else {
        timeout(limit, result)
            .await
            .map_err(|_| ClientError::new("timed out waiting for the condition"))??
    };
    if !exists {
        // Request the object to report the server's own error.
        session.api.get(&info.path()).await?;
    }
    Ok(())
}

async fn restart(session: &CommandSession, info: &ResourceInfo) -> Result<(), ClientError> {
    let object = session.api.get(&info.path()).await?;
    expect_workload(info)?;
    if object["spec"]["paused"] == true {
        return Err(ClientError::new(
            "can't restart paused deployment (run rollout resume first)",
        ));
    }
    let at = age::timestamp(age::now());
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": at}}}}});
    session.api.patch(&info.path(), STRATEGIC, &patch).await?;
    session.print_line(format_args!("{} restarted", info.title()))
}

async fn set_paused(
    session: &CommandSession,
    info: &ResourceInfo,
    change: PauseChange,
) -> Result<(), ClientError> {
    let (verb, done, problem) = match change {
        PauseChange::Pause => ("pausing", "paused", "is already paused"),
        PauseChange::Resume => ("resuming", "resumed", "is not paused"),
    };
    if info.resource.kind != "Deployment" {
        return Err(ClientError::new(format!(
            "{} {verb} is not supported",
            info.resource.plural_noun()
        )));
    }
    let pause = change == PauseChange::Pause;
    let object = session.api.get(&info.path()).await?;
    let is_paused = object["spec"]["paused"] == true;
    if is_paused == pause {
        return Err(ClientError::new(format!(
            "{} {:?} {problem}",
            info.resource.plural_noun(),
            info.name()
        )));
    }
    session
        .api
        .patch(&info.path(), STRATEGIC, &json!({"spec": {"paused": pause}}))
        .await?;
    session.print_line(format_args!("{} {done}", info.title()))
}

fn expect_workload(info: &ResourceInfo) -> Result<(), ClientError> {
    match info.resource.kind.as_str() {
        "Deployment" | "DaemonSet" | "StatefulSet" => Ok(()),
        _ => Err(ClientError::new(format!(
            "rollouts are not supported for {}",
            info.resource.plural_noun()
        ))),
    }
}
