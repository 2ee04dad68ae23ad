//! What changes after a table was shown.

use std::io::Write;

use serde_json::Value;

use super::{
    GetFlags, Section,
    rows::{self, Rows},
};
use crate::{failed::Failed, output::Output, session::Session, table::Layout, watch::Watch};

/// Shows a row for everything that happens.
pub(super) struct Follower<'a> {
    flags: &'a GetFlags,
    session: &'a Session,
    section: &'a Section,
    rows: Rows,
    layout: Layout,
}

// --- Follower ---

impl<'a> Follower<'a> {
    pub(super) fn new(flags: &'a GetFlags, session: &'a Session, section: &'a Section, rows: Rows) -> Self {
        let layout = rows.table.layout(None, !flags.no_headers);
        Self {
            flags,
            session,
            section,
            rows,
            layout,
        }
    }

    /// Goes on until the server says that it cannot.
    pub(super) async fn run(mut self) -> Result<(), Failed> {
        let mut needs_header =
            !self.flags.no_headers && (self.rows.table.rows.is_empty() || self.flags.watch_only);
        let mut revision = std::mem::take(&mut self.rows.revision);
        let mut query = selectors(self.flags, self.section);
        query.push(("includeObject", Some("Metadata".to_owned())));
        loop {
            let collection = self.section.pick.collection();
            let mut watch =
                Watch::begin(&self.session.api, &collection, &query, &revision, rows::ACCEPT).await?;
            while let Some(happening) = watch.next().await? {
                let (lines, seen) = self.rows.more(happening.object)?;
                revision = seen.unwrap_or(revision);
                if needs_header {
                    // Nothing was shown by which widths were settled.
                    self.rows.table.rows.clone_from(&lines);
                    self.layout = self.rows.table.layout(None, true);
                }
                let has_header = std::mem::take(&mut needs_header);
                self.session.show(|screen| {
                    self.layout
                        .print(screen, &self.rows.table.header, &lines, has_header)
                })?;
            }
        }
    }
}

/// Shows every object that changes after a list, or after the object itself, was read.
pub(super) async fn objects(
    flags: &GetFlags,
    session: &Session,
    section: &Section,
    since: &Value,
    output: &Output,
) -> Result<(), Failed> {
    let mut revision = since["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let query = selectors(flags, section);
    loop {
        let collection = section.pick.collection();
        let mut watch = Watch::begin(&session.api, &collection, &query, &revision, crate::api::JSON).await?;
        while let Some(happening) = watch.next().await? {
            if let Some(seen) = happening.object["metadata"]["resourceVersion"].as_str() {
                seen.clone_into(&mut revision);
            }
            if matches!(output, Output::Yaml) {
                session.show(|screen| writeln!(screen, "---"))?;
            }
            flags.print_object(session, output, happening.object)?;
        }
    }
}

fn selectors(flags: &GetFlags, section: &Section) -> Vec<(&'static str, Option<String>)> {
    match section.names.first() {
        Some(name) => vec![("fieldSelector", Some(format!("metadata.name={name}")))],
        None => flags.objects.select.query(),
    }
}
