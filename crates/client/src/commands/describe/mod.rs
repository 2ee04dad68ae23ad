//! `k3 describe`: details of objects with their events.

mod events;
mod generic;
mod node;
mod pod;
mod service;
mod sheet;
mod workload;

use std::io::Write;

use clap::Args;
use serde_json::Value;

pub(crate) use self::pod::format_pod_template;
use self::sheet::DescriptionSheet;
use super::get::report_all;
use crate::{
    api_resource::with_query,
    connection::ConnectFlags,
    error::ClientError,
    resource_builder::{ObjectFlags, ResourceInfo},
    session::CommandSession,
};

/// Show details of a resource and its events
#[derive(Debug, Args)]
pub struct DescribeFlags {
    #[command(flatten)]
    objects: ObjectFlags,

    /// Do not print events
    #[arg(long)]
    no_events: bool,

    /// Accepted for kubectl compatibility; events are printed unless --no-events is given
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    show_events: Option<bool>,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

// --- DescribeFlags ---

impl DescribeFlags {
    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        let mut failures = Vec::new();
        let mut is_first = true;
        for info in self.objects.resolve(session).await? {
            let objects = match self.objects(session, &info).await {
                Ok(objects) => objects,
                Err(failed) => {
                    failures.push(failed);
                    continue;
                }
            };
            for object in objects {
                let text = self.text(session, &info, &object).await?;
                session.show(|screen| {
                    if !is_first {
                        screen.write_all(b"\n\n")?;
                    }
                    screen.write_all(text.as_bytes())
                })?;
                is_first = false;
            }
        }
        if is_first && failures.is_empty() {
            eprintln!("No resources found in {} namespace.", session.namespace);
        }
        report_all(failures)
    }

    async fn objects(
        &self,
        session: &CommandSession,
        info: &ResourceInfo,
    ) -> Result<Vec<Value>, ClientError> {
        if info.name.is_some() {
            return Ok(vec![session.api.get(&info.path()).await?]);
        }
        let path = with_query(&info.collection(), &self.objects.select.query());
        let mut list = session.api.get(&path).await?;
        let items = match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        Ok(items
            .into_iter()
            .map(|item| info.resource.with_type_meta(item))
            .collect())
    }

    async fn text(
        &self,
        session: &CommandSession,
        info: &ResourceInfo,
        object: &Value,
    ) -> Result<String, ClientError> {
        let mut sheet = DescriptionSheet::default();
        match (info.resource.group.as_str(), info.resource.kind.as_str()) {
            ("", "Pod") => pod::describe(&mut sheet, object),
            ("", "Node") => node::describe(&mut sheet, session, object).await?,
            ("", "Service") => service::describe(&mut sheet, session, object).await?,
            ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") | ("batch", "Job") => {
                workload::describe(&mut sheet, session, object).await?;
            }
            _ => generic::describe(&mut sheet, object),
        }
        if !self.no_events && self.show_events != Some(false) {
            events::describe(&mut sheet, session, object).await?;
        }
        Ok(sheet.text())
    }
}
