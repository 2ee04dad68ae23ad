//! `k3 get --watch`: prints changes after the list.

use std::io::Write;

use serde_json::Value;

use super::{
    GetFlags, GetSection,
    rows::{self, TableRows},
};
use crate::{
    error::ClientError,
    output::OutputFormat,
    session::CommandSession,
    table::{ColumnLayout, Header},
    watch::ObjectWatch,
};

/// Prints a row for each watch event.
pub(super) struct TableWatcher<'a> {
    flags: &'a GetFlags,
    session: &'a CommandSession,
    section: &'a GetSection,
    rows: TableRows,
    layout: ColumnLayout,
}

// --- TableWatcher ---

impl<'a> TableWatcher<'a> {
    pub(super) fn new(
        flags: &'a GetFlags,
        session: &'a CommandSession,
        section: &'a GetSection,
        rows: TableRows,
    ) -> Self {
        let layout = rows.table.layout(None, flags.header.header());
        Self {
            flags,
            session,
            section,
            rows,
            layout,
        }
    }

    /// Watches until the server returns an error; a watch that ends normally is started again.
    pub(super) async fn run(mut self) -> Result<(), ClientError> {
        let mut header = if self.rows.table.rows.is_empty() || self.flags.watch_only {
            self.flags.header.header()
        } else {
            Header::Hidden
        };
        let mut revision = std::mem::take(&mut self.rows.revision);
        let mut query = selectors(self.flags, self.section);
        query.push(("includeObject", Some("Metadata".to_owned())));
        loop {
            let collection = self.section.info.collection();
            let mut watch =
                ObjectWatch::start(&self.session.api, &collection, &query, &revision, rows::ACCEPT).await?;
            while let Some(event) = watch.next().await? {
                let (lines, seen) = self.rows.more(event.object)?;
                revision = seen.unwrap_or(revision);
                if header == Header::Shown {
                    // Nothing was printed yet, so the first rows determine the column widths.
                    self.rows.table.rows.clone_from(&lines);
                    self.layout = self.rows.table.layout(None, header);
                }
                let header = std::mem::replace(&mut header, Header::Hidden);
                self.session
                    .show(|screen| self.layout.print(screen, &self.rows.table.header, &lines, header))?;
            }
        }
    }
}

/// Prints each object that changes after `since`, a list or an object.
pub(super) async fn watch_objects(
    flags: &GetFlags,
    session: &CommandSession,
    section: &GetSection,
    since: &Value,
    output: &OutputFormat,
) -> Result<(), ClientError> {
    let mut revision = since["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let query = selectors(flags, section);
    loop {
        let collection = section.info.collection();
        let mut watch =
            ObjectWatch::start(&session.api, &collection, &query, &revision, crate::api::JSON).await?;
        while let Some(event) = watch.next().await? {
            if let Some(seen) = event.object["metadata"]["resourceVersion"].as_str() {
                seen.clone_into(&mut revision);
            }
            if matches!(output, OutputFormat::Yaml) {
                session.show(|screen| writeln!(screen, "---"))?;
            }
            flags.print_object(session, output, event.object)?;
        }
    }
}

fn selectors(flags: &GetFlags, section: &GetSection) -> Vec<(&'static str, Option<String>)> {
    match section.names.first() {
        Some(name) => vec![("fieldSelector", Some(format!("metadata.name={name}")))],
        None => flags.objects.select.query(),
    }
}
