//! `k3 delete`: deletes objects and waits until they are removed.

use std::time::Duration;

use clap::{Args, ValueEnum};
use http::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{apply::DryRun, get::report_all};
use crate::{
    age::duration_argument,
    api::JSON,
    connection::ConnectFlags,
    error::ClientError,
    output::OutputFormat,
    resource_builder::{ResourceInfo, SelectionFlags},
    session::CommandSession,
    watch::wait_until,
};

/// Delete resources
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct DeleteFlags {
    #[command(flatten)]
    selection: SelectionFlags,

    /// Seconds for the resource to terminate gracefully; defaults to 0 with --force and to 1 with --now. 0 is 1 without --force
    #[arg(long, value_name = "SECONDS")]
    grace_period: Option<u32>,

    /// Signal resources for immediate shutdown (same as --grace-period=1)
    #[arg(long, conflicts_with = "grace_period")]
    now: bool,

    /// Delete immediately and bypass graceful termination
    #[arg(long)]
    force: bool,

    /// Deletion strategy for dependents
    #[arg(long, value_name = "STRATEGY", default_value = "background")]
    cascade: Cascade,

    /// Wait until the resources are removed
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = clap::ArgAction::Set)]
    wait: bool,

    /// How long to wait for the removal; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration_argument)]
    timeout: Duration,

    /// Do not fail when a resource does not exist
    #[arg(long)]
    ignore_not_found: bool,

    /// `client` only prints the resource, `server` sends the request without persisting it, `none` deletes it
    #[arg(long, value_name = "STRATEGY", default_value = "none", num_args = 0..=1, default_missing_value = "client",
        require_equals = true)]
    dry_run: DryRun,

    /// Output format; `name` prints names only
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<OutputFormat>,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cascade {
    Background,
    Foreground,
    Orphan,
}

/// An object that the server accepted for deletion.
struct TerminatingObject {
    info: ResourceInfo,
    uid: Value,
}

// --- DeleteFlags ---

impl DeleteFlags {
    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        let infos = self.selection.resolve(session, None).await?;
        if infos.is_empty() {
            eprintln!("No resources found");
            return Ok(());
        }
        let mut terminating = Vec::new();
        let mut failures = Vec::new();
        for info in infos {
            match self.delete(session, &info).await {
                Ok(uid) => {
                    self.print_deleted(session, &info)?;
                    terminating.extend(uid.map(|uid| TerminatingObject { info, uid }));
                }
                Err(failed) if failed.is_not_found() && self.ignore_not_found => {}
                Err(failed) => failures.push(info.add_source(failed, "deleting")),
            }
        }
        if self.wait && self.dry_run == DryRun::None {
            let removed = wait_for_removal(session, &terminating);
            if self.timeout.is_zero() {
                removed.await?;
            } else if timeout(self.timeout, removed).await.is_err() {
                failures.push(ClientError::new("timed out waiting for the condition"));
            }
        }
        report_all(failures)
    }

    /// Deletes an object. Returns its uid, to wait for its removal, or `None` after a client dry run.
    async fn delete(
        &self,
        session: &CommandSession,
        info: &ResourceInfo,
    ) -> Result<Option<Value>, ClientError> {
        if self.dry_run == DryRun::Client {
            session.api.get(&info.path()).await?;
            return Ok(None);
        }
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": match self.cascade {
            Cascade::Background => "Background",
            Cascade::Foreground => "Foreground",
            Cascade::Orphan => "Orphan",
        }});
        if let Some(seconds) = self.grace_period_seconds() {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(stage) = self.dry_run.query() {
            options["dryRun"] = json!([stage]);
        }
        let (_, response) = session
            .api
            .write(Method::DELETE, &info.path(), JSON, &options)
            .await?;
        // The response is the terminating object, or a Status with the uid when the object was removed at once.
        let uid = match response["metadata"].get("uid") {
            Some(uid) => uid.clone(),
            None => response["details"]["uid"].clone(),
        };
        Ok(Some(uid))
    }

    // upstream: staging/src/k8s.io/kubectl/pkg/cmd/delete/delete.go Complete
    /// How long the object has to terminate. 0 removes a pod that may still run, so without `--force` it becomes 1.
    fn grace_period_seconds(&self) -> Option<u32> {
        match (self.grace_period, self.now, self.force) {
            (Some(0), _, false) | (None, true, _) => Some(1),
            (Some(seconds), ..) => Some(seconds),
            (None, false, true) => Some(0),
            (None, false, false) => None,
        }
    }

    fn print_deleted(&self, session: &CommandSession, info: &ResourceInfo) -> Result<(), ClientError> {
        if matches!(self.output, Some(OutputFormat::Name)) {
            return session.print_line(info.title());
        }
        let action = if self.force && self.grace_period.unwrap_or(0) == 0 {
            "force deleted"
        } else {
            "deleted"
        };
        let suffix = self.dry_run.suffix();
        session.print_line(format_args!(
            "{} {:?} {action}{suffix}",
            info.resource.noun(),
            info.name()
        ))
    }
}

// upstream: staging/src/k8s.io/kubectl/pkg/cmd/wait/delete.go IsDeleted
/// Waits until objects are removed or replaced by objects with another uid.
async fn wait_for_removal(
    session: &CommandSession,
    terminating: &[TerminatingObject],
) -> Result<(), ClientError> {
    for TerminatingObject { info, uid } in terminating {
        let is_removed = |object: Option<&Value>| {
            let exists = object.is_some_and(|object| uid.is_null() || object["metadata"]["uid"] == *uid);
            Ok((!exists).then_some(()))
        };
        match wait_until(&session.api, &info.collection(), info.name(), is_removed).await {
            // A user who may delete the object may lack permission to get or watch it.
            Err(failed) if failed.http_code() == Some(403) || failed.http_code() == Some(405) => {}
            // With a CustomResourceDefinition its collection is removed too.
            Err(failed) if failed.is_not_found() => {}
            result => result?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct DeleteCommand {
        #[command(flatten)]
        flags: DeleteFlags,
    }

    fn grace(arguments: &str) -> Option<u32> {
        let argv = ["delete", "pod", "a"]
            .into_iter()
            .chain(arguments.split_whitespace());
        DeleteCommand::try_parse_from(argv)
            .unwrap()
            .flags
            .grace_period_seconds()
    }

    #[test]
    fn only_force_removes_objects_at_once() {
        for (arguments, expected) in [
            ("", None),
            ("--grace-period=5", Some(5)),
            ("--grace-period=0", Some(1)),
            ("--grace-period=0 --force", Some(0)),
            ("--force", Some(0)),
            ("--now", Some(1)),
            ("--now --force", Some(1)),
        ] {
            assert_eq!(grace(arguments), expected, "{arguments}");
        }
    }

    /// What is deleted by mistake cannot be brought back.
    #[test]
    fn a_dry_run_is_none_unless_asked_for() {
        let dry_run = |arguments: &str| {
            let argv = ["delete", "pod", "a"]
                .into_iter()
                .chain(arguments.split_whitespace());
            DeleteCommand::try_parse_from(argv).map(|command| command.flags.dry_run)
        };
        assert_eq!(dry_run("").ok(), Some(DryRun::None));
        assert_eq!(dry_run("--dry-run").ok(), Some(DryRun::Client));
        assert_eq!(dry_run("--dry-run=server").ok(), Some(DryRun::Server));
        assert!(dry_run("--dry-run=sometimes").is_err());
    }
}
