//! `k3 api-resources`: what kinds there are.

use std::{collections::HashSet, io::Write, str::FromStr};

use clap::{Args, ValueEnum};

use crate::{connection::ConnectFlags, failed::Failed, resource::Resource, session::Session, table::Table};

/// Display the kinds of objects that the server has
#[derive(Debug, Args)]
pub struct ApiResourcesFlags {
    /// Only those of this group; an empty one is that of pods
    #[arg(long, value_name = "GROUP")]
    api_group: Option<String>,

    /// Only those in namespaces, or only those that are not
    #[arg(long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1, require_equals = true,
        value_parser = bool::from_str)]
    namespaced: Option<bool>,

    /// Only those with all of these verbs
    #[arg(long, value_name = "VERBS", value_delimiter = ',')]
    verbs: Vec<String>,

    /// Only those of all of these categories
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    categories: Vec<String>,

    /// Order
    #[arg(long, value_name = "WHAT")]
    sort_by: Option<By>,

    /// `wide` shows verbs and categories, `name` names alone
    #[arg(short, long, value_name = "FORM")]
    output: Option<Form>,

    /// No line of headers
    #[arg(long)]
    no_headers: bool,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    Name,
    Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Wide,
    Name,
}

// --- ApiResourcesFlags ---

impl ApiResourcesFlags {
    pub(crate) async fn run(&self, session: &Session) -> Result<(), Failed> {
        let mut resources = session.discovery.lock().await.all(&session.api).await?;
        // Of several versions the preferred one is shown, which comes first.
        let mut seen = HashSet::new();
        resources.retain(|resource| {
            let is_new = seen.insert((resource.group.clone(), resource.plural.clone()));
            is_new && self.is_wanted(resource)
        });
        match self.sort_by {
            Some(By::Name) => resources.sort_by(|left, right| left.plural.cmp(&right.plural)),
            Some(By::Kind) => resources.sort_by(|left, right| left.kind.cmp(&right.kind)),
            None => resources
                .sort_by(|left, right| (&left.group, &left.plural).cmp(&(&right.group, &right.plural))),
        }
        if self.output == Some(Form::Name) {
            return session.show(|screen| {
                resources
                    .iter()
                    .try_for_each(|resource| writeln!(screen, "{}", resource.plural_noun()))
            });
        }
        let is_wide = self.output == Some(Form::Wide);
        let mut header = vec!["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"];
        header.extend(is_wide.then_some(["VERBS", "CATEGORIES"]).into_iter().flatten());
        let mut table = Table::new(&header);
        table.rows = resources
            .iter()
            .map(|resource| {
                let mut row = vec![
                    resource.plural.clone(),
                    resource.short_names.join(","),
                    resource.api_version(),
                    resource.is_namespaced.to_string(),
                    resource.kind.clone(),
                ];
                if is_wide {
                    row.extend([resource.verbs.join(","), resource.categories.join(",")]);
                }
                row
            })
            .collect();
        session.show(|screen| table.print(screen, !self.no_headers))
    }

    fn is_wanted(&self, resource: &Resource) -> bool {
        self.api_group
            .as_ref()
            .is_none_or(|group| *group == resource.group)
            && self
                .namespaced
                .is_none_or(|is_namespaced| is_namespaced == resource.is_namespaced)
            && self.verbs.iter().all(|verb| resource.verbs.contains(verb))
            && self
                .categories
                .iter()
                .all(|category| resource.categories.contains(category))
            && !resource.verbs.is_empty()
    }
}
