//! `k3 secrets reencrypt`: rewrites objects that are not stored with the current key.

use clap::Args;
use k3_storage::transfer::TransferProgress;
use serde_json::Value;

use super::{
    super::server_flags::{ApiClient, ServerFlags},
    status::{EncryptionReport, ResourceReport},
};
use crate::{command_error::CommandError, progress, progress::ProgressLine};

/// Page size of list requests.
const PAGE: usize = 500;
/// Attempts for an object that is changed concurrently.
const ATTEMPTS: usize = 10;

/// Rewrite all objects of encrypted resources that are not stored with the current key.
#[derive(Debug, Args)]
pub(super) struct ReencryptFlags {
    #[command(flatten)]
    server: ServerFlags,
}

/// A resource whose objects are rewritten.
struct ReencryptTarget {
    /// The path of the group version, such as `/api/v1`.
    root: String,
    plural: String,
    is_namespaced: bool,
}

/// Counts of a run.
#[derive(Default)]
struct ReencryptSummary {
    rewritten: TransferProgress,
    /// Objects that were stored with the current key already.
    current: u64,
    /// Objects that could not be rewritten, each with the reason.
    failed: Vec<String>,
}

/// The result for one object.
enum RewriteOutcome {
    Rewritten {
        bytes: u64,
    },
    Current,
    /// The object was deleted concurrently.
    Deleted,
}

/// Why an object was not rewritten.
#[derive(Debug, thiserror::Error)]
enum RewriteError {
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Request(#[from] kube::Error),
    #[error("too many conflicts with concurrent changes")]
    Conflicts,
}

pub(super) async fn run(flags: &ReencryptFlags) -> Result<(), CommandError> {
    let cluster = ApiClient::connect(&flags.server).await?;
    let report = EncryptionReport::fetch(&cluster).await?;
    let mut summary = ReencryptSummary::default();
    let mut progress = ProgressLine::new("rewritten");
    for resource in report.resources.iter().filter(|resource| resource.stale > 0) {
        let rewritten = rewrite_all(&cluster, resource, &mut summary, &mut progress).await;
        if let Err(failure) = rewritten {
            summary.failed.push(format!("{}: {failure}", resource.name()));
        }
    }
    let spent = progress.end();
    print_line!(
        "{}; {} were stored with the current key already, {} failed",
        progress::line("rewritten", summary.rewritten, spent),
        summary.current,
        summary.failed.len()
    );
    for resource in &report.resources {
        print_line!("{}: current key {}", resource.name(), resource.current);
    }
    if summary.failed.is_empty() {
        return Ok(());
    }
    for failure in &summary.failed {
        eprintln!("{failure}");
    }
    Err(CommandError::new(
        format!("{} objects or resources were not rewritten", summary.failed.len()),
        "see the reasons above, and run the command again; keep the old keys until then",
    ))
}

async fn rewrite_all(
    cluster: &ApiClient,
    resource: &ResourceReport,
    summary: &mut ReencryptSummary,
    progress: &mut ProgressLine,
) -> Result<(), CommandError> {
    let target = ReencryptTarget::find(cluster, resource).await?;
    let mut next = String::new();
    loop {
        let path = format!("{}/{}?limit={PAGE}&continue={next}", target.root, target.plural);
        let list = cluster.request("GET", &path, None).await?;
        for item in items_of(&list, &path)? {
            match rewrite(cluster, &target, &list, item).await {
                Ok(RewriteOutcome::Rewritten { bytes }) => {
                    summary.rewritten.entries += 1;
                    summary.rewritten.bytes += bytes;
                }
                Ok(RewriteOutcome::Current) => summary.current += 1,
                Ok(RewriteOutcome::Deleted) => {}
                Err(reason) => summary.failed.push(format!("{}: {reason}", target.path(item))),
            }
            progress.update(summary.rewritten);
        }
        match list["metadata"]["continue"].as_str() {
            Some(text) if !text.is_empty() => text.clone_into(&mut next),
            _ => return Ok(()),
        }
    }
}

/// The objects of a list. Without them, the answer must not count as a resource without objects.
fn items_of<'l>(list: &'l Value, path: &str) -> Result<&'l [Value], CommandError> {
    list["items"].as_array().map(Vec::as_slice).ok_or_else(|| {
        CommandError::new(
            format!("the answer to GET {path} is not a list"),
            "check that the kubeconfig names a Kubernetes API server; the objects were not rewritten",
        )
    })
}

/// Updates an object without changes: the server rewrites it if it is not stored with the current key.
async fn rewrite(
    cluster: &ApiClient,
    target: &ReencryptTarget,
    list: &Value,
    item: &Value,
) -> Result<RewriteOutcome, RewriteError> {
    let path = target.path(item);
    let mut object = item.clone();
    for _ in 0..ATTEMPTS {
        complete(&mut object, list);
        let before = object["metadata"]["resourceVersion"].clone();
        match cluster.send("PUT", &path, Some(&object)).await {
            Ok(stored) if stored["metadata"]["resourceVersion"] == before => {
                return Ok(RewriteOutcome::Current);
            }
            Ok(stored) => {
                let bytes = u64::try_from(stored.to_string().len()).unwrap_or_default();
                return Ok(RewriteOutcome::Rewritten { bytes });
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(RewriteOutcome::Deleted),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                match cluster.send("GET", &path, None).await {
                    Ok(again) => object = again,
                    Err(kube::Error::Api(status)) if status.code == 404 => {
                        return Ok(RewriteOutcome::Deleted);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            Err(kube::Error::Api(status)) => return Err(RewriteError::Refused(status.message)),
            Err(error) => return Err(error.into()),
        }
    }
    Err(RewriteError::Conflicts)
}

/// Adds `apiVersion` and `kind`, which items of a list lack.
fn complete(object: &mut Value, list: &Value) {
    if object.get("kind").is_none() {
        let kind = list["kind"].as_str().unwrap_or_default();
        object["kind"] = kind.strip_suffix("List").unwrap_or(kind).into();
        object["apiVersion"] = list["apiVersion"].clone();
    }
}

// --- ReencryptTarget ---

impl ReencryptTarget {
    /// Finds the paths of a resource in the preferred version of its group.
    async fn find(cluster: &ApiClient, resource: &ResourceReport) -> Result<Self, CommandError> {
        let root = if resource.group.is_empty() {
            "/api/v1".to_owned()
        } else {
            let group = cluster
                .request("GET", &format!("/apis/{}", resource.group), None)
                .await?;
            let version = group["preferredVersion"]["groupVersion"].as_str();
            format!("/apis/{}", version.unwrap_or_default())
        };
        let known = cluster.request("GET", &root, None).await?;
        let known = known["resources"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let Some(found) = known.iter().find(|known| known["name"] == *resource.resource) else {
            return Err(CommandError::new(
                format!("the API has no {} in {root}", resource.name()),
                "its definition may have been deleted; the stored objects cannot be reached",
            ));
        };
        Ok(Self {
            root,
            plural: resource.resource.clone(),
            is_namespaced: found["namespaced"] == true,
        })
    }

    /// The path of an object.
    fn path(&self, object: &Value) -> String {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        if self.is_namespaced {
            let namespace = metadata["namespace"].as_str().unwrap_or_default();
            format!("{}/namespaces/{namespace}/{}/{name}", self.root, self.plural)
        } else {
            format!("{}/{}/{name}", self.root, self.plural)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::items_of;

    #[test]
    fn answer_without_items_is_not_an_empty_list() {
        assert_eq!(
            items_of(&json!({"items": []}), "/api/v1/secrets").unwrap().len(),
            0
        );
        for answer in [json!({}), json!({"items": null}), json!({"items": "none"})] {
            let error = items_of(&answer, "/api/v1/secrets").unwrap_err().to_string();
            assert!(
                error.contains("the answer to GET /api/v1/secrets is not a list"),
                "{error}"
            );
        }
    }
}
