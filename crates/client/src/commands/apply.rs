//! `k3 apply`: objects become as files say, by server-side apply.
//!
//! Promises: nothing is sent while some document cannot be read or is of a kind that neither the server knows nor another
//! document defines. What somebody else set is not taken over unless that is asked for; what `k3 scale` and `k3 edit` set
//! is one's own.

use std::{sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use http::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::get::report;
use crate::{
    api::{APPLY, MANAGER},
    connection::ConnectFlags,
    documents::Document,
    failed::Failed,
    output::Output,
    pick::{FileFlags, Pick},
    resource::{Resource, with_query},
    session::Session,
};

/// How long a kind that was just defined may take to be served.
const DEFINED_WITHIN: Duration = Duration::from_secs(30);

/// Make objects as files say
#[derive(Debug, Args)]
pub struct ApplyFlags {
    #[command(flatten)]
    files: FileFlags,

    /// Take over fields that others manage
    #[arg(long)]
    force_conflicts: bool,

    /// Only say what would be done: as the server would (server), or without asking it (client)
    #[arg(long, value_name = "WHO", default_value = "none", num_args = 0..=1, default_missing_value = "client",
        require_equals = true)]
    dry_run: DryRun,

    /// Name under which the fields are managed
    #[arg(long, value_name = "NAME", default_value = MANAGER)]
    field_manager: String,

    /// Form of the output: json, yaml, name or jsonpath=TEMPLATE
    #[arg(short, long, value_name = "FORM")]
    output: Option<Output>,

    /// Always so; here for who writes it for kubectl
    #[arg(long, hide = true)]
    server_side: bool,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

/// Who tries what would be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    None,
    Server,
    Client,
}

// --- DryRun ---

impl DryRun {
    /// What is added to the query of a write.
    pub(crate) fn query(self) -> Option<String> {
        (self != Self::None).then(|| "All".to_owned())
    }

    /// What is added to what is said.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Server => " (server dry run)",
            Self::Client => " (dry run)",
        }
    }
}

// --- ApplyFlags ---

impl ApplyFlags {
    pub(crate) async fn run(&self, session: &Session) -> Result<(), Failed> {
        if self.files.files.is_empty() {
            return Err(Failed::usage("must specify one of -f FILE, -f FOLDER or -f -"));
        }
        let documents = self.files.read()?;
        let mut resources = Vec::new();
        for document in &documents {
            let (api_version, kind) = document.kind()?;
            let found = session
                .discovery
                .lock()
                .await
                .of_kind(&session.api, api_version, kind)
                .await?;
            if found.is_none() && !documents.iter().any(|other| defines(other, api_version, kind)) {
                return Err(document.unknown());
            }
            resources.push(found);
        }
        let mut failures = Vec::new();
        for (document, resource) in documents.iter().zip(resources) {
            if let Err(failed) = self.apply(session, document, resource).await {
                if failed.is_silent() {
                    return Err(failed);
                }
                failures.push(failed);
            }
        }
        report(failures)
    }

    async fn apply(
        &self,
        session: &Session,
        document: &Document,
        resource: Option<Arc<Resource>>,
    ) -> Result<(), Failed> {
        let resource = match resource {
            Some(resource) => resource,
            None => defined(session, document).await?,
        };
        let pick = session.pick_of(document, resource)?;
        let doing = |failed: Failed| pick.told(failed, "applying patch to");
        let before = session.api.find(&pick.path()).await.map_err(doing)?;
        let after = if self.dry_run == DryRun::Client {
            document.object.clone()
        } else {
            self.patch(session, &pick, document).await.map_err(doing)?
        };
        let word = match &before {
            None => "created",
            Some(before) if self.dry_run == DryRun::Client || is_same(before, &after) => "unchanged",
            Some(_) => "configured",
        };
        match &self.output {
            Some(output) => session.show(|screen| output.print(screen, &after, true)),
            None => session.say(format_args!("{} {word}{}", pick.title(), self.dry_run.suffix())),
        }
    }

    async fn patch(&self, session: &Session, pick: &Pick, document: &Document) -> Result<Value, Failed> {
        match self.send(session, pick, document, self.force_conflicts).await {
            Err(failed) if is_own_conflict(&failed, &self.field_manager) => {
                self.send(session, pick, document, true).await
            }
            answer => answer,
        }
    }

    async fn send(
        &self,
        session: &Session,
        pick: &Pick,
        document: &Document,
        is_forced: bool,
    ) -> Result<Value, Failed> {
        let query = [
            ("fieldManager", Some(self.field_manager.clone())),
            ("force", Some(is_forced.to_string())),
            ("dryRun", self.dry_run.query()),
        ];
        let path = with_query(&pick.path(), &query);
        Ok(session
            .api
            .write(Method::PATCH, &path, APPLY, &document.object)
            .await?
            .1)
    }
}

/// Whether two states of an object differ in nothing but who manages it.
fn is_same(before: &Value, after: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
        }
        object
    };
    bare(before) == bare(after)
}

/// Whether a conflict is with nothing but other writes under the same name, such as those of `k3 scale`.
fn is_own_conflict(failed: &Failed, manager: &str) -> bool {
    let own = format!("conflict with {manager:?}");
    let causes = failed
        .status()
        .filter(|status| status["reason"] == "Conflict")
        .and_then(|status| status["details"]["causes"].as_array());
    causes.is_some_and(|causes| {
        let is_own = |cause: &Value| {
            cause["message"]
                .as_str()
                .is_some_and(|message| message.starts_with(&own))
        };
        !causes.is_empty() && causes.iter().all(is_own)
    })
}

/// Whether a document defines a kind.
fn defines(document: &Document, api_version: &str, kind: &str) -> bool {
    let Some((group, _)) = api_version.split_once('/') else {
        return false;
    };
    let object = &document.object;
    object["kind"] == "CustomResourceDefinition"
        && object["spec"]["group"] == group
        && object["spec"]["names"]["kind"] == kind
}

/// The resource of a kind that was defined a moment ago.
async fn defined(session: &Session, document: &Document) -> Result<Arc<Resource>, Failed> {
    let (api_version, kind) = document.kind()?;
    let deadline = Instant::now() + DEFINED_WITHIN;
    loop {
        let mut discovery = session.discovery.lock().await;
        discovery.forget();
        if let Some(resource) = discovery.of_kind(&session.api, api_version, kind).await? {
            return Ok(resource);
        }
        drop(discovery);
        if Instant::now() > deadline {
            return Err(document.unknown());
        }
        sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_conflicts_with_oneself_are_overruled() {
        let conflict = |managers: &[&str]| {
            let causes: Vec<Value> = managers
                .iter()
                .map(|manager| json!({"message": format!("conflict with {manager:?} using apps/v1"), "field": ".a"}))
                .collect();
            Failed::server(
                json!({"code": 409, "reason": "Conflict", "details": {"causes": causes}}),
                None,
            )
        };
        assert!(is_own_conflict(&conflict(&["k3"]), "k3"));
        assert!(!is_own_conflict(&conflict(&["k3", "helm"]), "k3"));
        assert!(!is_own_conflict(&conflict(&[]), "k3"));
        assert!(!is_own_conflict(&Failed::new("x"), "k3"));
    }
}
