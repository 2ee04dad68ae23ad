//! `k3 scale`: how many of something run.

use clap::Args;

use serde_json::json;

use super::get::report;
use crate::{
    api::MERGE,
    connection::ConnectFlags,
    failed::Failed,
    pick::{FileFlags, Pick},
    session::Session,
};

/// The API has 32 bits with a sign for it.
const MAX_REPLICAS: i64 = i32::MAX as i64;

/// Set how many replicas run
#[derive(Debug, Args)]
pub struct ScaleFlags {
    /// What to scale: `deployment web`, `sts/db`
    #[arg(value_name = "TYPE[/NAME]")]
    what: Vec<String>,

    #[command(flatten)]
    files: FileFlags,

    /// How many
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=MAX_REPLICAS))]
    replicas: u32,

    /// Only if so many are asked for now
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=MAX_REPLICAS))]
    current_replicas: Option<u32>,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

// --- ScaleFlags ---

impl ScaleFlags {
    pub(crate) async fn run(&self, session: &Session) -> Result<(), Failed> {
        let mut failures = Vec::new();
        for pick in session.pick_named(&self.what, &self.files).await? {
            match self.scale(session, &pick).await {
                Ok(()) => session.say(format_args!("{} scaled", pick.title()))?,
                Err(failed) => failures.push(failed),
            }
        }
        report(failures)
    }

    async fn scale(&self, session: &Session, pick: &Pick) -> Result<(), Failed> {
        if !pick.resource.subresources.iter().any(|part| part == "scale") {
            return Err(Failed::new(format!(
                "{} cannot be scaled",
                pick.resource.plural_noun()
            )));
        }
        let path = format!("{}/scale", pick.path());
        let mut patch = json!({"spec": {"replicas": self.replicas}});
        if let Some(expected) = self.current_replicas {
            let scale = session.api.get(&path).await?;
            let count = scale["spec"]["replicas"].as_u64().unwrap_or_default();
            if count != u64::from(expected) {
                return Err(Failed::new(format!(
                    "Expected replicas to be {expected}, was {count}"
                )));
            }
            // Whoever scales in between makes this one fail.
            patch["metadata"] = json!({"resourceVersion": scale["metadata"]["resourceVersion"]});
        }
        session.api.patch(&path, MERGE, &patch).await.map(drop)
    }
}
