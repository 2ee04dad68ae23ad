//! `k3 secrets status`: counts stored objects by encryption key.

use std::collections::BTreeMap;

use clap::Args;
use serde::Deserialize;

use super::super::{
    server_flags::{ApiClient, ServerFlags},
    table::table,
};
use crate::{command_error::CommandError, server::STATUS_PATH};

/// Show for each encrypted resource how many objects are stored with which provider and key.
#[derive(Debug, Args)]
pub(super) struct StatusFlags {
    /// Output format
    #[arg(long, short, value_name = "FORMAT", value_parser = ["text", "json"], default_value = "text")]
    output: String,

    #[command(flatten)]
    server: ServerFlags,
}

/// The report of a server.
#[derive(Debug, Deserialize)]
pub(super) struct EncryptionReport {
    enabled: bool,
    #[serde(default)]
    error: Option<String>,
    pub(super) resources: Vec<ResourceReport>,
}

/// Counts of one resource.
#[derive(Debug, Deserialize)]
pub(super) struct ResourceReport {
    pub(super) group: String,
    pub(super) resource: String,
    /// The current provider and key.
    pub(super) current: String,
    counts: BTreeMap<String, u64>,
    /// Counts of objects stored with other keys.
    pub(super) stale: u64,
}

// --- EncryptionReport ---

impl EncryptionReport {
    /// Requests the report.
    pub(super) async fn fetch(cluster: &ApiClient) -> Result<Self, CommandError> {
        let answer = cluster.request("GET", STATUS_PATH, None).await?;
        let report: Self = serde_json::from_value(answer).map_err(|error| {
            CommandError::new(
                "cannot parse the server's encryption report",
                "use the k3 of the server's version",
            )
            .caused_by(error)
        })?;
        if let Some(error) = &report.error {
            let what = format!("the server cannot read its store: {error}");
            return Err(CommandError::new(what, "see the log of the server"));
        }
        if !report.enabled {
            return Err(CommandError::new(
                "the server has no encryption configuration",
                "start it with --encryption-provider-config; see docs/encryption.md",
            ));
        }
        Ok(report)
    }
}

// --- ResourceReport ---

impl ResourceReport {
    /// The resource with its group, as in an encryption configuration.
    pub(super) fn name(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }
}

pub(super) async fn run(flags: &StatusFlags) -> Result<(), CommandError> {
    let cluster = ApiClient::connect(&flags.server).await?;
    if flags.output == "json" {
        let answer = cluster.request("GET", STATUS_PATH, None).await?;
        print_line!("{answer:#}");
        return Ok(());
    }
    let report = EncryptionReport::fetch(&cluster).await?;
    let mut rows = vec![["RESOURCE", "STORED WITH", "OBJECTS", "CURRENT KEY"].map(str::to_owned)];
    for resource in &report.resources {
        for (stored, count) in &resource.counts {
            rows.push([
                resource.name(),
                stored.clone(),
                count.to_string(),
                resource.current.clone(),
            ]);
        }
    }
    print_text!("{}", table(&rows));
    let stale: u64 = report.resources.iter().map(|resource| resource.stale).sum();
    if stale > 0 {
        print_line!("{stale} objects are not stored with the current key: run `k3 secrets reencrypt`");
    }
    Ok(())
}
