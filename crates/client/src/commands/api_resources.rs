//! `k3 api-resources`: prints the API resources of the server.

use std::{collections::HashSet, io::Write, str::FromStr};

use clap::{Args, ValueEnum};

use crate::{
    api_resource::ApiResource,
    connection::ConnectFlags,
    error::ClientError,
    session::CommandSession,
    table::{HeaderFlags, Table},
};

/// Print the API resources that the server supports
#[derive(Debug, Args)]
pub struct ApiResourcesFlags {
    /// Limit to resources of this API group; an empty string is the core group
    #[arg(long, value_name = "GROUP")]
    api_group: Option<String>,

    /// Limit to namespaced resources, or with `=false` to cluster-scoped resources
    #[arg(long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1, require_equals = true,
        value_parser = bool::from_str)]
    namespaced: Option<bool>,

    /// Limit to resources that support all of these verbs
    #[arg(long, value_name = "VERBS", value_delimiter = ',')]
    verbs: Vec<String>,

    /// Limit to resources that belong to all of these categories
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    categories: Vec<String>,

    /// Sort by this field
    #[arg(long, value_name = "FIELD")]
    sort_by: Option<ApiResourcesSortKey>,

    /// Output format: `wide` adds verbs and categories, `name` prints names only
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<ApiResourcesOutput>,

    #[command(flatten)]
    header: HeaderFlags,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ApiResourcesSortKey {
    Name,
    Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ApiResourcesOutput {
    Wide,
    Name,
}

// --- ApiResourcesFlags ---

impl ApiResourcesFlags {
    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        let mut resources = session.discovery.lock().await.all(&session.api).await?;
        // A resource is listed once, in its preferred version, which discovery returns first.
        let mut seen = HashSet::new();
        resources.retain(|resource| {
            let is_new = seen.insert((resource.group.clone(), resource.plural.clone()));
            is_new && self.matches(resource)
        });
        match self.sort_by {
            Some(ApiResourcesSortKey::Name) => {
                resources.sort_by(|left, right| left.plural.cmp(&right.plural));
            }
            Some(ApiResourcesSortKey::Kind) => resources.sort_by(|left, right| left.kind.cmp(&right.kind)),
            None => resources
                .sort_by(|left, right| (&left.group, &left.plural).cmp(&(&right.group, &right.plural))),
        }
        if self.output == Some(ApiResourcesOutput::Name) {
            return session.show(|screen| {
                resources
                    .iter()
                    .try_for_each(|resource| writeln!(screen, "{}", resource.plural_noun()))
            });
        }
        let is_wide = self.output == Some(ApiResourcesOutput::Wide);
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
        session.show(|screen| table.print(screen, self.header.header()))
    }

    fn matches(&self, resource: &ApiResource) -> bool {
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
