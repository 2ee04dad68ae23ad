//! `k3 rollout`: how changes of workloads go, and back.

mod history;
mod progress;
mod undo;

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::time::timeout;

use self::progress::Progress;
use crate::{
    age::{self, duration_argument},
    api::STRATEGIC,
    connection::ConnectFlags,
    failed::Failed,
    pick::{FileFlags, Pick},
    session::Session,
    watch::until,
};

/// See, repeat, stop or take back changes of workloads
#[derive(Debug, Args)]
pub struct RolloutFlags {
    #[command(subcommand)]
    command: Rollout,
}

#[derive(Debug, Subcommand)]
enum Rollout {
    /// Follow a change until it is done
    Status {
        #[command(flatten)]
        target: Target,

        /// Go on until it is done
        #[arg(short, long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1,
            require_equals = true, action = clap::ArgAction::Set)]
        watch: bool,

        /// Give up after this long; 0 never
        #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration_argument)]
        timeout: Duration,
    },
    /// Go back to an earlier revision
    Undo {
        #[command(flatten)]
        target: Target,

        /// Revision to go back to; 0 is the one before
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        to_revision: i64,
    },
    /// Start all pods anew, a few at a time
    Restart {
        #[command(flatten)]
        target: Target,
    },
    /// Hold changes back
    Pause {
        #[command(flatten)]
        target: Target,
    },
    /// Let changes go on
    Resume {
        #[command(flatten)]
        target: Target,
    },
    /// Show revisions
    History {
        #[command(flatten)]
        target: Target,

        /// Show what is in this revision
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        revision: i64,
    },
}

/// What is meant, and where.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// `deployment web`, `ds/agent`, `sts/db`
    #[arg(value_name = "TYPE[/NAME]")]
    what: Vec<String>,

    #[command(flatten)]
    files: FileFlags,

    #[command(flatten)]
    connection: ConnectFlags,
}

// --- RolloutFlags ---

impl RolloutFlags {
    fn target(&self) -> &Target {
        match &self.command {
            Rollout::Status { target, .. }
            | Rollout::Undo { target, .. }
            | Rollout::Restart { target }
            | Rollout::Pause { target }
            | Rollout::Resume { target }
            | Rollout::History { target, .. } => target,
        }
    }

    pub(crate) fn connection(&self) -> &ConnectFlags {
        &self.target().connection
    }

    pub(crate) async fn run(&self, session: &Session) -> Result<(), Failed> {
        let target = self.target();
        for pick in session.pick_named(&target.what, &target.files).await? {
            match &self.command {
                Rollout::Status { watch, timeout, .. } => status(session, &pick, *watch, *timeout).await?,
                Rollout::Undo { to_revision, .. } => undo::undo(session, &pick, *to_revision).await?,
                Rollout::Restart { .. } => restart(session, &pick).await?,
                Rollout::Pause { .. } => pause(session, &pick, true).await?,
                Rollout::Resume { .. } => pause(session, &pick, false).await?,
                Rollout::History { revision, .. } => history::show(session, &pick, *revision).await?,
            }
        }
        Ok(())
    }
}

async fn status(session: &Session, pick: &Pick, is_watched: bool, limit: Duration) -> Result<(), Failed> {
    let kind = pick.resource.kind.clone();
    let mut said = String::new();
    let is_done = |object: Option<&Value>| {
        let Some(object) = object else {
            return Ok(Some(false));
        };
        let (line, is_done) = match progress::of(&kind, object)? {
            Progress::Going(line) => (line, false),
            Progress::Done(line) => (line, true),
        };
        if line != said {
            session.say(&line)?;
            said = line;
        }
        Ok((is_done || !is_watched).then_some(true))
    };
    let collection = pick.collection();
    let waited = until(&session.api, &collection, pick.name(), is_done);
    let is_there = if limit.is_zero() {
        waited.await?
    } else {
        timeout(limit, waited)
            .await
            .map_err(|_| Failed::new("timed out waiting for the condition"))??
    };
    if !is_there {
        // The server says best that it is not there.
        session.api.get(&pick.path()).await?;
    }
    Ok(())
}

async fn restart(session: &Session, pick: &Pick) -> Result<(), Failed> {
    let object = session.api.get(&pick.path()).await?;
    expect_workload(pick)?;
    if object["spec"]["paused"] == true {
        return Err(Failed::new(
            "can't restart paused deployment (run rollout resume first)",
        ));
    }
    let at = age::timestamp(age::now());
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": at}}}}});
    session.api.patch(&pick.path(), STRATEGIC, &patch).await?;
    session.say(format_args!("{} restarted", pick.title()))
}

async fn pause(session: &Session, pick: &Pick, is_wanted: bool) -> Result<(), Failed> {
    if pick.resource.kind != "Deployment" {
        let word = if is_wanted { "pausing" } else { "resuming" };
        return Err(Failed::new(format!(
            "{} {word} is not supported",
            pick.resource.plural_noun()
        )));
    }
    let word = if is_wanted { "paused" } else { "resumed" };
    let object = session.api.get(&pick.path()).await?;
    let is_paused = object["spec"]["paused"] == true;
    if is_paused == is_wanted {
        let not = if is_wanted {
            "is already paused"
        } else {
            "is not paused"
        };
        return Err(Failed::new(format!(
            "{} {:?} {not}",
            pick.resource.plural_noun(),
            pick.name()
        )));
    }
    session
        .api
        .patch(&pick.path(), STRATEGIC, &json!({"spec": {"paused": is_wanted}}))
        .await?;
    session.say(format_args!("{} {word}", pick.title()))
}

fn expect_workload(pick: &Pick) -> Result<(), Failed> {
    match pick.resource.kind.as_str() {
        "Deployment" | "DaemonSet" | "StatefulSet" => Ok(()),
        _ => Err(Failed::new(format!(
            "{} have no rollouts",
            pick.resource.plural_noun()
        ))),
    }
}
