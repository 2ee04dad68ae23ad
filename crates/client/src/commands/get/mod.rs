//! `k3 get`: prints objects as the server's tables, or in an output format.

mod rows;
mod watch;

use std::io::Write;

use clap::Args;
use serde_json::Value;

use self::{rows::TableRows, watch::TableWatcher};
use crate::{
    api_resource::with_query,
    connection::ConnectFlags,
    error::ClientError,
    output::{OutputFormat, parse_path},
    resource_builder::{ObjectFlags, ResourceInfo},
    session::CommandSession,
    table::HeaderFlags,
    watch::new_list,
};

/// Display one or many resources
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct GetFlags {
    #[command(flatten)]
    objects: ObjectFlags,

    /// Output format: json, yaml, wide, name, jsonpath=TEMPLATE, jsonpath-file=FILE or custom-columns=HEADER:PATH,...
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<OutputFormat>,

    /// After listing the objects, watch for changes
    #[arg(short, long)]
    watch: bool,

    /// Watch for changes without listing the objects first
    #[arg(long)]
    watch_only: bool,

    #[command(flatten)]
    header: HeaderFlags,

    /// Print the resource type before each name; the default with several types
    #[arg(long)]
    show_kind: bool,

    /// Print all labels in the last column
    #[arg(long)]
    show_labels: bool,

    /// Labels to print as columns, separated by commas
    #[arg(short = 'L', long, value_name = "NAMES", value_delimiter = ',')]
    label_columns: Vec<String>,

    /// Sort by the value at this JSONPath, such as `.metadata.creationTimestamp`
    #[arg(long, value_name = "PATH")]
    sort_by: Option<String>,

    /// Keep managedFields when printing objects in JSON or YAML
    #[arg(long)]
    show_managed_fields: bool,

    /// Do not fail when a resource does not exist
    #[arg(long)]
    ignore_not_found: bool,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

/// Format of names in a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameFormat {
    Plain,
    /// `pod/web`.
    WithKind,
}

/// The selected objects of one resource and namespace: those in `names`, or all when it is empty.
struct GetSection {
    info: ResourceInfo,
    names: Vec<String>,
}

// --- GetFlags ---

impl GetFlags {
    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        let sections = self.sections(session).await?;
        match &self.output {
            None | Some(OutputFormat::Wide) => self.tables(session, &sections).await,
            Some(output) => self.objects(session, &sections, output).await,
        }
    }

    async fn sections(&self, session: &CommandSession) -> Result<Vec<GetSection>, ClientError> {
        let mut sections: Vec<GetSection> = Vec::new();
        for mut info in self.objects.resolve(session).await? {
            if self.objects.all_namespaces && info.name.is_some() {
                return Err(ClientError::usage(
                    "a resource cannot be retrieved by name across all namespaces",
                ));
            }
            if info.name.is_some() && !self.objects.select.is_empty() {
                return Err(ClientError::usage(
                    "selectors may not be used when a resource is specified by name",
                ));
            }
            let name = info.name.take();
            let is_same = |section: &GetSection| {
                section.info.resource == info.resource && section.info.namespace == info.namespace
            };
            match sections
                .last_mut()
                .filter(|section| name.is_some() && is_same(section))
            {
                Some(section) => section.names.extend(name),
                None => sections.push(GetSection {
                    info,
                    names: name.into_iter().collect(),
                }),
            }
        }
        let is_one = matches!(&sections[..], [section] if section.names.len() <= 1);
        if self.is_watching() && !is_one {
            return Err(ClientError::usage(
                "watch is only supported on individual resources and resource collections",
            ));
        }
        Ok(sections)
    }

    fn is_watching(&self) -> bool {
        self.watch || self.watch_only
    }

    // --- Tables ---

    async fn tables(&self, session: &CommandSession, sections: &[GetSection]) -> Result<(), ClientError> {
        let naming = if self.show_kind || sections.len() > 1 {
            NameFormat::WithKind
        } else {
            NameFormat::Plain
        };
        let mut failures = Vec::new();
        let mut is_first = true;
        for section in sections {
            let rows = match self.rows(session, section, &mut failures, naming).await {
                Ok(rows) => rows,
                // The user may lack permission for one resource of a category; print the others.
                Err(failed) => {
                    failures.push(failed);
                    continue;
                }
            };
            if !rows.table.rows.is_empty() && !self.watch_only {
                session.show(|screen| {
                    if !is_first {
                        writeln!(screen)?;
                    }
                    rows.table.print(screen, self.header.header())
                })?;
                is_first = false;
            }
            if self.is_watching() {
                return TableWatcher::new(self, session, section, rows).run().await;
            }
        }
        if is_first && failures.is_empty() && !self.ignore_not_found {
            let namespace = sections
                .iter()
                .find_map(|section| section.info.namespace.as_deref());
            match namespace {
                Some(namespace) => eprintln!("No resources found in {namespace} namespace."),
                None => eprintln!("No resources found"),
            }
        }
        report_all(failures)
    }

    /// Requests the rows of a section. Errors of single names are added to `failures`.
    async fn rows(
        &self,
        session: &CommandSession,
        section: &GetSection,
        failures: &mut Vec<ClientError>,
        naming: NameFormat,
    ) -> Result<TableRows, ClientError> {
        let options = rows::RowOptions {
            is_wide: matches!(self.output, Some(OutputFormat::Wide)),
            is_watched: self.is_watching(),
            has_namespace: self.objects.all_namespaces && section.info.resource.is_namespaced,
            noun: (naming == NameFormat::WithKind).then(|| section.info.resource.noun()),
            labels: self.label_columns.clone(),
            has_labels: self.show_labels,
            sort: self.sort_by.as_deref().map(parse_path).transpose()?,
        };
        let include = options.include_object();
        if section.names.is_empty() {
            let mut query = self.objects.select.query();
            query.push(("includeObject", Some(include.to_owned())));
            let path = with_query(&section.info.collection(), &query);
            return TableRows::read(&session.api.bytes(&path, rows::ACCEPT).await?, options);
        }
        let mut all: Option<TableRows> = None;
        for name in &section.names {
            let path = object_path(section, name, include);
            match session.api.bytes(&path, rows::ACCEPT).await {
                Ok(bytes) => {
                    let rows = TableRows::read(&bytes, options.clone())?;
                    match &mut all {
                        None => all = Some(rows),
                        Some(all) => all.table.rows.extend(rows.table.rows),
                    }
                }
                Err(failed) if failed.is_not_found() && self.ignore_not_found => {}
                Err(failed) => failures.push(failed),
            }
        }
        Ok(all.unwrap_or_default())
    }

    // --- Objects ---

    async fn objects(
        &self,
        session: &CommandSession,
        sections: &[GetSection],
        output: &OutputFormat,
    ) -> Result<(), ClientError> {
        let mut items = Vec::new();
        let mut failures = Vec::new();
        for section in sections {
            let info = &section.info;
            if section.names.is_empty() {
                let path = with_query(&info.collection(), &self.objects.select.query());
                let mut list = session.api.get(&path).await?;
                if let Some(Value::Array(objects)) = list.get_mut("items").map(Value::take) {
                    items.extend(
                        objects
                            .into_iter()
                            .map(|object| info.resource.with_type_meta(object)),
                    );
                }
                if self.is_watching() {
                    self.print_objects(session, output, items)?;
                    return watch::watch_objects(self, session, section, &list, output).await;
                }
            }
            for name in &section.names {
                let path = info.resource.object(info.namespace.as_deref(), name);
                match session.api.get(&path).await {
                    Ok(object) if self.is_watching() => {
                        if !self.watch_only {
                            self.print_object(session, output, object.clone())?;
                        }
                        return watch::watch_objects(self, session, section, &object, output).await;
                    }
                    Ok(object) => items.push(object),
                    Err(failed) if failed.is_not_found() && self.ignore_not_found => {}
                    Err(failed) => failures.push(failed),
                }
            }
        }
        let is_single = matches!(sections, [section] if section.names.len() == 1);
        if is_single {
            if let Some(object) = items.pop() {
                self.print_object(session, output, object)?;
            }
        } else {
            self.print_objects(session, output, items)?;
        }
        report_all(failures)
    }

    fn print_objects(
        &self,
        session: &CommandSession,
        output: &OutputFormat,
        mut items: Vec<Value>,
    ) -> Result<(), ClientError> {
        if self.watch_only {
            return Ok(());
        }
        if let Some(path) = &self.sort_by {
            let path = parse_path(path)?;
            items.sort_by(|left, right| rows::compare(path.first(left), path.first(right)));
        }
        if !self.show_managed_fields {
            items.iter_mut().for_each(remove_managed_fields);
        }
        let list = new_list(items);
        session.show(|screen| output.print(screen, &list, self.header.header()))
    }

    fn print_object(
        &self,
        session: &CommandSession,
        output: &OutputFormat,
        mut object: Value,
    ) -> Result<(), ClientError> {
        if !self.show_managed_fields {
            remove_managed_fields(&mut object);
        }
        session.show(|screen| output.print(screen, &object, self.header.header()))
    }
}

/// Removes `metadata.managedFields`.
pub(crate) fn remove_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Prints all errors except the last, and returns the last to the caller.
pub(crate) fn report_all(mut failures: Vec<ClientError>) -> Result<(), ClientError> {
    let last = failures.pop();
    for failed in failures {
        eprintln!("{failed}");
    }
    last.map_or(Ok(()), Err)
}

fn object_path(section: &GetSection, name: &str, include: &str) -> String {
    let info = &section.info;
    let path = info.resource.object(info.namespace.as_deref(), name);
    with_query(&path, &[("includeObject", Some(include.to_owned()))])
}
