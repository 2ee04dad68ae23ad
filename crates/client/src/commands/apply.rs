//! `k3 apply`: server-side apply of manifests.
//!
//! Nothing is sent while a document is unreadable, or has a kind that neither the server has nor another document defines.
//! Fields of other managers stay unless `--force-conflicts` is given. Fields that `k3 scale` and `k3 edit` set belong to the
//! same manager and are overwritten.

use std::{sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use http::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::get::report_all;
use crate::{
    api::{APPLY, MANAGER},
    api_resource::{ApiResource, with_query},
    connection::ConnectFlags,
    error::ClientError,
    manifests::ManifestDocument,
    output::OutputFormat,
    resource_builder::{FileFlags, ResourceInfo},
    session::CommandSession,
    table::Header,
};

/// How long the server may take to serve a kind after its `CustomResourceDefinition` was created.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);

/// Apply a configuration to resources by file name or stdin
#[derive(Debug, Args)]
pub struct ApplyFlags {
    #[command(flatten)]
    files: FileFlags,

    /// Take ownership of conflicting fields from other managers
    #[arg(long)]
    force_conflicts: bool,

    /// `client` prints the object without sending it, `server` sends it without persisting it, `none` applies it
    #[arg(long, value_name = "STRATEGY", default_value = "none", num_args = 0..=1, default_missing_value = "client",
        require_equals = true)]
    dry_run: DryRun,

    /// Name of the manager that owns the applied fields
    #[arg(long, value_name = "NAME", default_value = MANAGER)]
    field_manager: String,

    /// Output format: json, yaml, name or jsonpath=TEMPLATE
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<OutputFormat>,

    /// Accepted for kubectl compatibility; apply is always server-side
    #[arg(long, hide = true)]
    server_side: bool,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

// upstream: staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go DryRunStrategy
/// Where a dry run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    None,
    Server,
    Client,
}

/// What happens to fields that other managers own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldConflicts {
    Report,
    TakeOver,
}

// --- DryRun ---

impl DryRun {
    /// The `dryRun` query parameter of a write.
    pub(crate) fn query(self) -> Option<String> {
        (self != Self::None).then(|| "All".to_owned())
    }

    /// The suffix of kubectl's messages.
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
    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        if self.files.files.is_empty() {
            return Err(ClientError::usage(
                "must specify one of -f FILE, -f DIRECTORY or -f -",
            ));
        }
        let documents = self.files.read()?;
        let mut resources = Vec::new();
        for document in &documents {
            let (api_version, kind) = document.type_meta()?;
            let found = session
                .discovery
                .lock()
                .await
                .find_kind(&session.api, api_version, kind)
                .await?;
            if found.is_none() && !documents.iter().any(|other| defines(other, api_version, kind)) {
                return Err(document.no_match_error());
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
        report_all(failures)
    }

    async fn apply(
        &self,
        session: &CommandSession,
        document: &ManifestDocument,
        resource: Option<Arc<ApiResource>>,
    ) -> Result<(), ClientError> {
        let resource = match resource {
            Some(resource) => resource,
            None => wait_until_served(session, document).await?,
        };
        let info = session.resolve_document(document, resource)?;
        let doing = |failed: ClientError| info.add_source(failed, "applying patch to");
        let before = session.api.find(&info.path()).await.map_err(doing)?;
        let after = if self.dry_run == DryRun::Client {
            document.object.clone()
        } else {
            self.patch(session, &info, document).await.map_err(doing)?
        };
        let word = match &before {
            None => "created",
            Some(before) if self.dry_run == DryRun::Client || is_same(before, &after) => "unchanged",
            Some(_) => "configured",
        };
        match &self.output {
            Some(output) => session.show(|screen| output.print(screen, &after, Header::Shown)),
            None => session.print_line(format_args!("{} {word}{}", info.title(), self.dry_run.suffix())),
        }
    }

    async fn patch(
        &self,
        session: &CommandSession,
        info: &ResourceInfo,
        document: &ManifestDocument,
    ) -> Result<Value, ClientError> {
        match self.send(session, info, document, self.conflicts()).await {
            Err(failed) if is_own_conflict(&failed, &self.field_manager) => {
                self.send(session, info, document, FieldConflicts::TakeOver).await
            }
            result => result,
        }
    }

    fn conflicts(&self) -> FieldConflicts {
        if self.force_conflicts {
            FieldConflicts::TakeOver
        } else {
            FieldConflicts::Report
        }
    }

    async fn send(
        &self,
        session: &CommandSession,
        info: &ResourceInfo,
        document: &ManifestDocument,
        conflicts: FieldConflicts,
    ) -> Result<Value, ClientError> {
        let query = [
            ("fieldManager", Some(self.field_manager.clone())),
            ("force", Some((conflicts == FieldConflicts::TakeOver).to_string())),
            ("dryRun", self.dry_run.query()),
        ];
        let path = with_query(&info.path(), &query);
        Ok(session
            .api
            .write(Method::PATCH, &path, APPLY, &document.object)
            .await?
            .1)
    }
}

/// Whether two states of an object differ in `managedFields` and `resourceVersion` only.
fn is_same(before: &Value, after: &Value) -> bool {
    let without_tracking = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
        }
        object
    };
    without_tracking(before) == without_tracking(after)
}

/// Whether all conflicts are with other operations of the same manager, such as those of `k3 scale`.
fn is_own_conflict(failed: &ClientError, manager: &str) -> bool {
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

/// Whether a document is the `CustomResourceDefinition` of a kind.
fn defines(document: &ManifestDocument, api_version: &str, kind: &str) -> bool {
    let Some((group, _)) = api_version.split_once('/') else {
        return false;
    };
    let object = &document.object;
    object["kind"] == "CustomResourceDefinition"
        && object["spec"]["group"] == group
        && object["spec"]["names"]["kind"] == kind
}

/// Waits until the server serves a kind whose `CustomResourceDefinition` was just applied.
async fn wait_until_served(
    session: &CommandSession,
    document: &ManifestDocument,
) -> Result<Arc<ApiResource>, ClientError> {
    let (api_version, kind) = document.type_meta()?;
    let deadline = Instant::now() + ESTABLISH_TIMEOUT;
    loop {
        let mut discovery = session.discovery.lock().await;
        discovery.invalidate();
        if let Some(resource) = discovery.find_kind(&session.api, api_version, kind).await? {
            return Ok(resource);
        }
        drop(discovery);
        if Instant::now() > deadline {
            return Err(document.no_match_error());
        }
        sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forces_only_conflicts_with_the_same_manager() {
        let conflict = |managers: &[&str]| {
            let causes: Vec<Value> = managers
                .iter()
                .map(|manager| json!({"message": format!("conflict with {manager:?} using apps/v1"), "field": ".a"}))
                .collect();
            ClientError::server(
                json!({"code": 409, "reason": "Conflict", "details": {"causes": causes}}),
                None,
            )
        };
        assert!(is_own_conflict(&conflict(&["k3"]), "k3"));
        assert!(!is_own_conflict(&conflict(&["k3", "helm"]), "k3"));
        assert!(!is_own_conflict(&conflict(&[]), "k3"));
        assert!(!is_own_conflict(&ClientError::new("x"), "k3"));
    }

    #[test]
    fn an_object_is_unchanged_if_only_its_tracking_is_new() {
        let object = |version: &str, manager: &str, data: &str| json!({"metadata": {"name": "a", "resourceVersion": version, "managedFields": [{"manager": manager}]}, "data": data});
        assert!(is_same(&object("1", "a", "x"), &object("2", "b", "x")));
        assert!(!is_same(&object("1", "a", "x"), &object("1", "a", "y")));
        let labelled = json!({"metadata": {"name": "a", "labels": {"l": "v"}}, "data": "x"});
        assert!(!is_same(&object("1", "a", "x"), &labelled));
    }

    #[test]
    fn a_kind_may_be_defined_by_another_document() {
        let document = ManifestDocument {
            source: "a.yaml".to_owned(),
            object: json!({"kind": "CustomResourceDefinition", "spec": {"group": "example.com", "names": {"kind": "Cron"}}}),
        };
        assert!(defines(&document, "example.com/v1", "Cron"));
        assert!(!defines(&document, "example.com/v1", "Crony"));
        assert!(!defines(&document, "other.com/v1", "Cron"));
        assert!(!defines(&document, "v1", "Cron"));
    }

    /// A dry run that forgot its parameter would write.
    #[test]
    fn every_dry_run_has_its_parameter() {
        assert_eq!(DryRun::None.query(), None);
        assert_eq!(DryRun::Server.query().as_deref(), Some("All"));
        assert_eq!(DryRun::Client.query().as_deref(), Some("All"));
    }
}
