//! `k3 secrets status`: how many objects are stored with which key.

use std::collections::BTreeMap;

use clap::Args;
use serde::Deserialize;

use super::super::{
    server_flags::{ApiClient, ServerFlags},
    table::table,
};
use crate::{failure::Failure, server::STATUS_PATH};

/// Show for each encrypted resource how many objects are stored with which provider and key.
#[derive(Debug, Args)]
pub(super) struct StatusFlags {
    /// Output format
    #[arg(long, short, value_name = "FORMAT", value_parser = ["text", "json"], default_value = "text")]
    output: String,

    #[command(flatten)]
    server: ServerFlags,
}

/// What a server reports.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    enabled: bool,
    #[serde(default)]
    error: Option<String>,
    pub(super) resources: Vec<ResourceReport>,
}

/// The objects of a resource.
#[derive(Debug, Deserialize)]
pub(super) struct ResourceReport {
    pub(super) group: String,
    pub(super) resource: String,
    /// What objects are encrypted with now.
    pub(super) current: String,
    counts: BTreeMap<String, u64>,
    /// How many are stored otherwise.
    pub(super) stale: u64,
}

// --- Report ---

impl Report {
    /// Asks a server that encrypts.
    pub(super) async fn fetch(cluster: &ApiClient) -> Result<Self, Failure> {
        let answer = cluster.request("GET", STATUS_PATH, None).await?;
        let report: Self = serde_json::from_value(answer).map_err(|error| {
            Failure::new(
                "cannot read the answer of the server",
                "use the k3 of the server's version",
            )
            .caused_by(error)
        })?;
        if let Some(error) = &report.error {
            let what = format!("the server cannot read its store: {error}");
            return Err(Failure::new(what, "see the log of the server"));
        }
        if !report.enabled {
            return Err(Failure::new(
                "the server has no encryption configuration",
                "start it with --encryption-provider-config; see docs/encryption.md",
            ));
        }
        Ok(report)
    }
}

// --- ResourceReport ---

impl ResourceReport {
    /// The name as configurations have it.
    pub(super) fn name(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }
}

pub(super) async fn run(flags: &StatusFlags) -> Result<(), Failure> {
    let cluster = ApiClient::connect(&flags.server).await?;
    if flags.output == "json" {
        let answer = cluster.request("GET", STATUS_PATH, None).await?;
        print_line!("{answer:#}");
        return Ok(());
    }
    let report = Report::fetch(&cluster).await?;
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
