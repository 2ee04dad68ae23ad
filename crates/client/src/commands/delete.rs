//! `k3 delete`: objects go, and are seen to be gone.

use std::time::Duration;

use clap::{Args, ValueEnum};
use http::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{apply::DryRun, get::report};
use crate::{
    age::duration_argument,
    api::JSON,
    connection::ConnectFlags,
    failed::Failed,
    output::Output,
    pick::{ChosenFlags, Pick},
    session::Session,
    watch::until,
};

/// Delete objects
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct DeleteFlags {
    #[command(flatten)]
    chosen: ChosenFlags,

    /// Seconds that pods get to end; 0 with --force, 1 with --now
    #[arg(long, value_name = "SECONDS")]
    grace_period: Option<u32>,

    /// Give pods a second to end
    #[arg(long, conflicts_with = "grace_period")]
    now: bool,

    /// Do not wait for what runs to end
    #[arg(long)]
    force: bool,

    /// What happens to what the objects own
    #[arg(long, value_name = "HOW", default_value = "background")]
    cascade: Cascade,

    /// Wait until the objects are gone
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = clap::ArgAction::Set)]
    wait: bool,

    /// Wait no longer than this; 0 is for ever
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration_argument)]
    timeout: Duration,

    /// What is not there is no failure
    #[arg(long)]
    ignore_not_found: bool,

    /// Only say what would be done
    #[arg(long, value_name = "WHO", default_value = "none", num_args = 0..=1, default_missing_value = "client",
        require_equals = true)]
    dry_run: DryRun,

    /// `name` prints names alone
    #[arg(short, long, value_name = "FORM")]
    output: Option<Output>,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cascade {
    Background,
    Foreground,
    Orphan,
}

/// An object on its way out.
struct Leaving {
    pick: Pick,
    uid: Value,
}

// --- DeleteFlags ---

impl DeleteFlags {
    pub(crate) async fn run(&self, session: &Session) -> Result<(), Failed> {
        let picks = self.chosen.picks(session, None).await?;
        if picks.is_empty() {
            eprintln!("No resources found");
            return Ok(());
        }
        let mut leaving = Vec::new();
        let mut failures = Vec::new();
        for pick in picks {
            match self.delete(session, &pick).await {
                Ok(uid) => {
                    self.say(session, &pick)?;
                    leaving.extend(uid.map(|uid| Leaving { pick, uid }));
                }
                Err(failed) if failed.is_not_found() && self.ignore_not_found => {}
                Err(failed) => failures.push(pick.told(failed, "deleting")),
            }
        }
        if self.wait && self.dry_run == DryRun::None {
            let gone = see_gone(session, &leaving);
            if self.timeout.is_zero() {
                gone.await?;
            } else if timeout(self.timeout, gone).await.is_err() {
                failures.push(Failed::new("timed out waiting for the condition"));
            }
        }
        report(failures)
    }

    /// Deletes an object; the uid of what is still there to be waited for.
    async fn delete(&self, session: &Session, pick: &Pick) -> Result<Option<Value>, Failed> {
        if self.dry_run == DryRun::Client {
            session.api.get(&pick.path()).await?;
            return Ok(None);
        }
        let grace = match (self.grace_period, self.now, self.force) {
            (Some(seconds), ..) => Some(seconds),
            (None, true, _) => Some(1),
            (None, false, true) => Some(0),
            (None, false, false) => None,
        };
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": match self.cascade {
            Cascade::Background => "Background",
            Cascade::Foreground => "Foreground",
            Cascade::Orphan => "Orphan",
        }});
        if let Some(seconds) = grace {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(who) = self.dry_run.query() {
            options["dryRun"] = json!([who]);
        }
        let (_, answer) = session
            .api
            .write(Method::DELETE, &pick.path(), JSON, &options)
            .await?;
        // The object while it goes, or a status with the uid when it is gone.
        let uid = match answer["metadata"].get("uid") {
            Some(uid) => uid.clone(),
            None => answer["details"]["uid"].clone(),
        };
        Ok(Some(uid))
    }

    fn say(&self, session: &Session, pick: &Pick) -> Result<(), Failed> {
        if matches!(self.output, Some(Output::Name)) {
            return session.say(pick.title());
        }
        let word = if self.force && self.grace_period.unwrap_or(0) == 0 {
            "force deleted"
        } else {
            "deleted"
        };
        let suffix = self.dry_run.suffix();
        session.say(format_args!(
            "{} {:?} {word}{suffix}",
            pick.resource.noun(),
            pick.name()
        ))
    }
}

/// Waits until objects are gone, or others are in their place.
async fn see_gone(session: &Session, leaving: &[Leaving]) -> Result<(), Failed> {
    for Leaving { pick, uid } in leaving {
        let is_gone = |object: Option<&Value>| {
            let is_there = object.is_some_and(|object| uid.is_null() || object["metadata"]["uid"] == *uid);
            Ok((!is_there).then_some(()))
        };
        match until(&session.api, &pick.collection(), pick.name(), is_gone).await {
            // Whoever may delete need not be allowed to look.
            Err(failed) if failed.http_code() == Some(403) || failed.http_code() == Some(405) => {}
            // With a definition go its objects, and the place where they were.
            Err(failed) if failed.is_not_found() => {}
            answer => answer?,
        }
    }
    Ok(())
}
