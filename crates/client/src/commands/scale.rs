//! `k3 scale`: sets the number of replicas.

use clap::Args;

use serde_json::json;

use super::get::report_all;
use crate::{
    api::MERGE,
    connection::ConnectFlags,
    error::ClientError,
    resource_builder::{FileFlags, ResourceInfo},
    session::CommandSession,
};

/// `replicas` is an int32 in the API.
const MAX_REPLICAS: i64 = i32::MAX as i64;

/// Set a new size for a deployment, replica set, replication controller or stateful set
#[derive(Debug, Args)]
pub struct ScaleFlags {
    /// Resources to scale: `deployment web`, `sts/db`
    #[arg(value_name = "TYPE[/NAME]")]
    what: Vec<String>,

    #[command(flatten)]
    files: FileFlags,

    /// The new desired number of replicas
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=MAX_REPLICAS))]
    replicas: u32,

    /// Precondition: the current number of replicas in the spec
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=MAX_REPLICAS))]
    current_replicas: Option<u32>,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

// --- ScaleFlags ---

impl ScaleFlags {
    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        let mut failures = Vec::new();
        for info in session.resolve_named(&self.what, &self.files).await? {
            match self.scale(session, &info).await {
                Ok(()) => session.print_line(format_args!("{} scaled", info.title()))?,
                Err(failed) => failures.push(failed),
            }
        }
        report_all(failures)
    }

    async fn scale(&self, session: &CommandSession, info: &ResourceInfo) -> Result<(), ClientError> {
        if !info.resource.subresources.iter().any(|part| part == "scale") {
            return Err(ClientError::new(format!(
                "{} does not support the scale subresource",
                info.resource.plural_noun()
            )));
        }
        let path = format!("{}/scale", info.path());
        let mut patch = json!({"spec": {"replicas": self.replicas}});
        if let Some(expected) = self.current_replicas {
            let scale = session.api.get(&path).await?;
            let count = scale["spec"]["replicas"].as_u64().unwrap_or_default();
            if count != u64::from(expected) {
                return Err(ClientError::new(format!(
                    "Expected replicas to be {expected}, was {count}"
                )));
            }
            // A concurrent change of the scale makes the patch fail with a conflict.
            patch["metadata"] = json!({"resourceVersion": scale["metadata"]["resourceVersion"]});
        }
        session.api.patch(&path, MERGE, &patch).await.map(drop)
    }
}
