//! `k3 get`: objects as tables of the server's, or as they are.

mod follow;
mod rows;

use std::io::Write;

use clap::Args;
use serde_json::Value;

use self::{follow::Follower, rows::Rows};
use crate::{
    connection::ConnectFlags,
    failed::Failed,
    jsonpath::Path,
    output::Output,
    pick::{ObjectFlags, Pick},
    resource::with_query,
    session::Session,
    watch::list_of,
};

/// Display one or many objects
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct GetFlags {
    #[command(flatten)]
    objects: ObjectFlags,

    /// Form of the output: json, yaml, wide, name, jsonpath=TEMPLATE, jsonpath-file=FILE or custom-columns=HEADER:PATH,...
    #[arg(short, long, value_name = "FORM")]
    output: Option<Output>,

    /// Go on, and show what changes
    #[arg(short, long)]
    watch: bool,

    /// Show only what changes
    #[arg(long)]
    watch_only: bool,

    /// No line of headers
    #[arg(long)]
    no_headers: bool,

    /// Say of each object of what kind it is, as several kinds are shown anyway
    #[arg(long)]
    show_kind: bool,

    /// Show labels in the last column
    #[arg(long)]
    show_labels: bool,

    /// Labels to show as columns, with commas between them
    #[arg(short = 'L', long, value_name = "NAMES", value_delimiter = ',')]
    label_columns: Vec<String>,

    /// Order by the value at this path, such as `.metadata.creationTimestamp`
    #[arg(long, value_name = "PATH")]
    sort_by: Option<String>,

    /// Show who manages which fields, in JSON and YAML
    #[arg(long)]
    show_managed_fields: bool,

    /// What is not there is no failure
    #[arg(long)]
    ignore_not_found: bool,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

/// What objects are called in a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Naming {
    Plain,
    /// `pod/web`.
    WithKind,
}

/// Picks of one kind and namespace: all objects, or those with names.
struct Section {
    pick: Pick,
    names: Vec<String>,
}

// --- GetFlags ---

impl GetFlags {
    pub(crate) async fn run(&self, session: &Session) -> Result<(), Failed> {
        let sections = self.sections(session).await?;
        match &self.output {
            None | Some(Output::Wide) => self.tables(session, &sections).await,
            Some(output) => self.objects(session, &sections, output).await,
        }
    }

    async fn sections(&self, session: &Session) -> Result<Vec<Section>, Failed> {
        let mut sections: Vec<Section> = Vec::new();
        for mut pick in self.objects.picks(session).await? {
            if self.objects.all_namespaces && pick.name.is_some() {
                return Err(Failed::usage(
                    "a resource cannot be retrieved by name across all namespaces",
                ));
            }
            if pick.name.is_some() && !self.objects.select.is_empty() {
                return Err(Failed::usage(
                    "selectors may not be used when a resource is specified by name",
                ));
            }
            let name = pick.name.take();
            let is_same = |section: &Section| {
                section.pick.resource == pick.resource && section.pick.namespace == pick.namespace
            };
            match sections
                .last_mut()
                .filter(|section| name.is_some() && is_same(section))
            {
                Some(section) => section.names.extend(name),
                None => sections.push(Section {
                    pick,
                    names: name.into_iter().collect(),
                }),
            }
        }
        let is_one = matches!(&sections[..], [section] if section.names.len() <= 1);
        if self.follows() && !is_one {
            return Err(Failed::usage(
                "watch is only supported on individual resources and resource collections",
            ));
        }
        Ok(sections)
    }

    /// Whether it goes on with what changes.
    fn follows(&self) -> bool {
        self.watch || self.watch_only
    }

    // --- Tables ---

    async fn tables(&self, session: &Session, sections: &[Section]) -> Result<(), Failed> {
        let naming = if self.show_kind || sections.len() > 1 {
            Naming::WithKind
        } else {
            Naming::Plain
        };
        let mut failures = Vec::new();
        let mut is_first = true;
        for section in sections {
            let rows = match self.rows(session, section, &mut failures, naming).await {
                Ok(rows) => rows,
                // A kind of a category may be nobody's business.
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
                    rows.table.print(screen, !self.no_headers)
                })?;
                is_first = false;
            }
            if self.follows() {
                return Follower::new(self, session, section, rows).run().await;
            }
        }
        if is_first && failures.is_empty() && !self.ignore_not_found {
            let namespace = sections
                .iter()
                .find_map(|section| section.pick.namespace.as_deref());
            match namespace {
                Some(namespace) => eprintln!("No resources found in {namespace} namespace."),
                None => eprintln!("No resources found"),
            }
        }
        report(failures)
    }

    /// The rows of a section. Names that are not there are told in `failures`.
    async fn rows(
        &self,
        session: &Session,
        section: &Section,
        failures: &mut Vec<Failed>,
        naming: Naming,
    ) -> Result<Rows, Failed> {
        let form = rows::Form {
            is_wide: matches!(self.output, Some(Output::Wide)),
            has_namespace: self.objects.all_namespaces && section.pick.resource.is_namespaced,
            noun: (naming == Naming::WithKind).then(|| section.pick.resource.noun()),
            labels: self.label_columns.clone(),
            has_labels: self.show_labels,
            sort: self.sort_by.as_deref().map(Path::parse).transpose()?,
        };
        let include = form.includes(self.follows());
        if section.names.is_empty() {
            let mut query = self.objects.select.query();
            query.push(("includeObject", Some(include.to_owned())));
            let path = with_query(&section.pick.collection(), &query);
            return Rows::read(&session.api.bytes(&path, rows::ACCEPT).await?, form);
        }
        let mut all: Option<Rows> = None;
        for name in &section.names {
            let path = path_of(section, name, include);
            match session.api.bytes(&path, rows::ACCEPT).await {
                Ok(bytes) => {
                    let rows = Rows::read(&bytes, form.clone())?;
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

    async fn objects(&self, session: &Session, sections: &[Section], output: &Output) -> Result<(), Failed> {
        let mut items = Vec::new();
        let mut failures = Vec::new();
        for section in sections {
            let pick = &section.pick;
            if section.names.is_empty() {
                let path = with_query(&pick.collection(), &self.objects.select.query());
                let mut list = session.api.get(&path).await?;
                if let Some(Value::Array(objects)) = list.get_mut("items").map(Value::take) {
                    items.extend(objects.into_iter().map(|object| pick.resource.completed(object)));
                }
                if self.follows() {
                    self.print_objects(session, output, items)?;
                    return follow::objects(self, session, section, &list, output).await;
                }
            }
            for name in &section.names {
                let path = pick.resource.object(pick.namespace.as_deref(), name);
                match session.api.get(&path).await {
                    Ok(object) if self.follows() => {
                        if !self.watch_only {
                            self.print_object(session, output, object.clone())?;
                        }
                        return follow::objects(self, session, section, &object, output).await;
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
        report(failures)
    }

    fn print_objects(&self, session: &Session, output: &Output, mut items: Vec<Value>) -> Result<(), Failed> {
        if self.watch_only {
            return Ok(());
        }
        if let Some(path) = &self.sort_by {
            let path = Path::parse(path)?;
            items.sort_by(|left, right| rows::compare(path.first(left), path.first(right)));
        }
        if !self.show_managed_fields {
            items.iter_mut().for_each(strip);
        }
        let list = list_of(items);
        session.show(|screen| output.print(screen, &list, !self.no_headers))
    }

    fn print_object(&self, session: &Session, output: &Output, mut object: Value) -> Result<(), Failed> {
        if !self.show_managed_fields {
            strip(&mut object);
        }
        session.show(|screen| output.print(screen, &object, !self.no_headers))
    }
}

/// Takes away who manages which fields.
pub(crate) fn strip(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Tells all failures but the last, which is for the caller to tell.
pub(crate) fn report(mut failures: Vec<Failed>) -> Result<(), Failed> {
    let last = failures.pop();
    for failed in failures {
        eprintln!("{failed}");
    }
    last.map_or(Ok(()), Err)
}

/// Where one object is, as a row.
fn path_of(section: &Section, name: &str, include: &str) -> String {
    let pick = &section.pick;
    let path = pick.resource.object(pick.namespace.as_deref(), name);
    with_query(&path, &[("includeObject", Some(include.to_owned()))])
}
