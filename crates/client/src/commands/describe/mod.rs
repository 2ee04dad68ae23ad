//! `k3 describe`: an object for people to read, with what happened to it.

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

pub(crate) use self::pod::template;
use self::sheet::Sheet;
use super::get::report;
use crate::{
    connection::ConnectFlags,
    failed::Failed,
    pick::{ObjectFlags, Pick},
    resource::with_query,
    session::Session,
};

/// Show an object in detail, with what happened to it
#[derive(Debug, Args)]
pub struct DescribeFlags {
    #[command(flatten)]
    objects: ObjectFlags,

    /// Leave out what happened
    #[arg(long)]
    no_events: bool,

    /// Always so unless --no-events is given; here for who writes it for kubectl
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    show_events: Option<bool>,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

// --- DescribeFlags ---

impl DescribeFlags {
    pub(crate) async fn run(&self, session: &Session) -> Result<(), Failed> {
        let mut failures = Vec::new();
        let mut is_first = true;
        for pick in self.objects.picks(session).await? {
            let objects = match self.objects(session, &pick).await {
                Ok(objects) => objects,
                Err(failed) => {
                    failures.push(failed);
                    continue;
                }
            };
            for object in objects {
                let text = self.text(session, &pick, &object).await?;
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
        report(failures)
    }

    async fn objects(&self, session: &Session, pick: &Pick) -> Result<Vec<Value>, Failed> {
        if pick.name.is_some() {
            return Ok(vec![session.api.get(&pick.path()).await?]);
        }
        let path = with_query(&pick.collection(), &self.objects.select.query());
        let mut list = session.api.get(&path).await?;
        let items = match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        Ok(items
            .into_iter()
            .map(|item| pick.resource.completed(item))
            .collect())
    }

    async fn text(&self, session: &Session, pick: &Pick, object: &Value) -> Result<String, Failed> {
        let mut sheet = Sheet::default();
        match (pick.resource.group.as_str(), pick.resource.kind.as_str()) {
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
