//! `k3 secrets reencrypt`: rewrites objects that are not stored with the current key.

use clap::Args;
use k3_storage::transfer::TransferProgress;
use serde_json::Value;

use super::{
    super::server_flags::{ApiClient, ServerFlags},
    status::{Report, ResourceReport},
};
use crate::{failure::Failure, progress, progress::Progress};

/// How many objects are listed at a time.
const PAGE: usize = 500;
/// Attempts for an object that another client changes at the same time.
const ATTEMPTS: usize = 10;

/// Rewrite all objects of encrypted resources that are not stored with the current key.
#[derive(Debug, Args)]
pub(super) struct ReencryptFlags {
    #[command(flatten)]
    server: ServerFlags,
}

/// A resource at work.
struct Target {
    /// What objects are under, such as `/api/v1`.
    root: String,
    plural: String,
    is_namespaced: bool,
}

/// What was done.
#[derive(Default)]
struct Summary {
    rewritten: TransferProgress,
    /// Objects that were stored with the current key already.
    current: u64,
    /// Objects that could not be rewritten, each with the reason.
    failed: Vec<String>,
}

/// What became of an object.
enum Outcome {
    Rewritten {
        bytes: u64,
    },
    Current,
    /// It was deleted meanwhile.
    Deleted,
}

pub(super) async fn run(flags: &ReencryptFlags) -> Result<(), Failure> {
    let cluster = ApiClient::connect(&flags.server).await?;
    let report = Report::fetch(&cluster).await?;
    let mut summary = Summary::default();
    let mut progress = Progress::new("rewritten");
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
    Err(Failure::new(
        format!("{} objects or resources were not rewritten", summary.failed.len()),
        "see the reasons above, and run the command again; keep the old keys until then",
    ))
}

async fn rewrite_all(
    cluster: &ApiClient,
    resource: &ResourceReport,
    summary: &mut Summary,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let target = Target::find(cluster, resource).await?;
    let mut next = String::new();
    loop {
        let path = format!("{}/{}?limit={PAGE}&continue={next}", target.root, target.plural);
        let list = cluster.request("GET", &path, None).await?;
        let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        for item in items {
            match rewrite(cluster, &target, &list, item).await {
                Ok(Outcome::Rewritten { bytes }) => {
                    summary.rewritten.entries += 1;
                    summary.rewritten.bytes += bytes;
                }
                Ok(Outcome::Current) => summary.current += 1,
                Ok(Outcome::Deleted) => {}
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

/// Puts an object as it is: the server writes it if it is not stored with the current key.
async fn rewrite(
    cluster: &ApiClient,
    target: &Target,
    list: &Value,
    item: &Value,
) -> Result<Outcome, String> {
    let path = target.path(item);
    let mut object = item.clone();
    for _ in 0..ATTEMPTS {
        complete(&mut object, list);
        let before = object["metadata"]["resourceVersion"].clone();
        match cluster.send("PUT", &path, Some(&object)).await {
            Ok(stored) if stored["metadata"]["resourceVersion"] == before => return Ok(Outcome::Current),
            Ok(stored) => {
                let bytes = u64::try_from(stored.to_string().len()).unwrap_or_default();
                return Ok(Outcome::Rewritten { bytes });
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Outcome::Deleted),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                match cluster.send("GET", &path, None).await {
                    Ok(again) => object = again,
                    Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Outcome::Deleted),
                    Err(error) => return Err(error.to_string()),
                }
            }
            Err(kube::Error::Api(status)) => return Err(status.message),
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("it changes too often".to_owned())
}

/// Adds what items of a list leave out.
fn complete(object: &mut Value, list: &Value) {
    if object.get("kind").is_none() {
        let kind = list["kind"].as_str().unwrap_or_default();
        object["kind"] = kind.strip_suffix("List").unwrap_or(kind).into();
        object["apiVersion"] = list["apiVersion"].clone();
    }
}

// --- Target ---

impl Target {
    /// Where the API has a resource: in the version that its group prefers.
    async fn find(cluster: &ApiClient, resource: &ResourceReport) -> Result<Self, Failure> {
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
            return Err(Failure::new(
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
