//! What the server has: asked for as little as it takes.
//!
//! Promises: a name of the first group (pods, services, nodes and their like) costs one request; any other costs two. Servers
//! that do not tell all at once are asked group by group.

use std::sync::Arc;

use serde::Deserialize;

use crate::{api::Api, failed::Failed, resource::Resource};

const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// What was learned so far.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    /// The first group.
    core: Option<Vec<Arc<Resource>>>,
    /// All others, in the server's order, preferred versions first.
    groups: Option<Vec<Arc<Resource>>>,
}

#[derive(Deserialize)]
struct GroupList {
    #[serde(default)]
    items: Vec<Group>,
    /// Of a server that tells group by group.
    #[serde(default)]
    groups: Vec<OldGroup>,
    #[serde(default)]
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Named,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<Offer>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Offer {
    resource: String,
    response_kind: Kind,
    scope: String,
    singular_resource: String,
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
    subresources: Vec<Part>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Kind {
    kind: String,
}

#[derive(Deserialize)]
struct Part {
    subresource: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldGroup {
    versions: Vec<OldVersion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldVersion {
    group_version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldResources {
    group_version: String,
    resources: Vec<OldResource>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OldResource {
    name: String,
    singular_name: String,
    namespaced: bool,
    kind: String,
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
}

// --- Discovery ---

impl Discovery {
    /// The resources that a word means: one, or those of a category such as `all`.
    pub(crate) async fn find(&mut self, api: &Api, word: &str) -> Result<Vec<Arc<Resource>>, Failed> {
        let lower = word.to_lowercase();
        if !lower.contains('.')
            && let Some(found) = self
                .core(api)
                .await?
                .iter()
                .find(|resource| resource.is_called(&lower))
        {
            return Ok(vec![found.clone()]);
        }
        let all = self.all(api).await?;
        if let Some(found) = all.iter().find(|resource| means(&lower, resource)) {
            return Ok(vec![found.clone()]);
        }
        let mut members: Vec<Arc<Resource>> = Vec::new();
        for resource in all {
            let is_known = members
                .iter()
                .any(|member| member.plural == resource.plural && member.group == resource.group);
            if resource.categories.contains(&lower) && !is_known {
                members.push(resource);
            }
        }
        if members.is_empty() {
            return Err(Failed::new(format!(
                "the server doesn't have a resource type {word:?}"
            )));
        }
        Ok(members)
    }

    /// The one resource that a word means.
    pub(crate) async fn find_one(&mut self, api: &Api, word: &str) -> Result<Arc<Resource>, Failed> {
        let found = self.find(api, word).await?;
        match found.as_slice() {
            [one] => Ok(one.clone()),
            _ => Err(Failed::usage(format!(
                "{word:?} is a category; name one resource type"
            ))),
        }
    }

    /// The resource of an object.
    pub(crate) async fn of_kind(
        &mut self,
        api: &Api,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Arc<Resource>>, Failed> {
        let known = if api_version.contains('/') {
            self.groups(api).await?
        } else {
            self.core(api).await?
        };
        let found = known
            .iter()
            .find(|resource| resource.kind == kind && resource.api_version() == api_version);
        Ok(found.cloned())
    }

    /// Forgets what was learned of groups that definitions can change.
    pub(crate) fn forget(&mut self) {
        self.groups = None;
    }

    /// Everything, the first group first.
    pub(crate) async fn all(&mut self, api: &Api) -> Result<Vec<Arc<Resource>>, Failed> {
        let mut all = self.core(api).await?.to_vec();
        all.extend_from_slice(self.groups(api).await?);
        Ok(all)
    }

    async fn core(&mut self, api: &Api) -> Result<&[Arc<Resource>], Failed> {
        if self.core.is_none() {
            self.core = Some(ask(api, "/api").await?);
        }
        Ok(self.core.as_deref().unwrap_or_default())
    }

    async fn groups(&mut self, api: &Api) -> Result<&[Arc<Resource>], Failed> {
        if self.groups.is_none() {
            self.groups = Some(ask(api, "/apis").await?);
        }
        Ok(self.groups.as_deref().unwrap_or_default())
    }
}

/// Whether a word means a resource: `deploy`, `deployments.apps`, `deployments.v1.apps`.
fn means(word: &str, resource: &Resource) -> bool {
    if resource.is_called(word) {
        return true;
    }
    let Some((name, rest)) = word.split_once('.') else {
        return false;
    };
    let is_versioned = || {
        rest.split_once('.')
            .is_some_and(|(version, group)| version == resource.version && group == resource.group)
    };
    resource.is_called(name)
        && (rest == resource.group
            || is_versioned()
            || (resource.group.is_empty() && rest == resource.version))
}

async fn ask(api: &Api, root: &str) -> Result<Vec<Arc<Resource>>, Failed> {
    let list: GroupList = api.parsed(root, ACCEPT).await?;
    if list.items.is_empty() {
        return ask_one_by_one(api, root, list).await;
    }
    let mut found = Vec::new();
    for group in list.items {
        for version in group.versions {
            for offer in version.resources {
                found.push(Arc::new(Resource {
                    group: group.metadata.name.clone(),
                    version: version.version.clone(),
                    singular: offer.singular_resource,
                    kind: offer.response_kind.kind,
                    short_names: offer.short_names,
                    categories: offer.categories,
                    verbs: offer.verbs,
                    subresources: offer
                        .subresources
                        .into_iter()
                        .map(|part| part.subresource)
                        .collect(),
                    is_namespaced: offer.scope == "Namespaced",
                    plural: offer.resource,
                }));
            }
        }
    }
    Ok(found)
}

/// Of a server that does not tell everything at once.
async fn ask_one_by_one(api: &Api, root: &str, list: GroupList) -> Result<Vec<Arc<Resource>>, Failed> {
    let group_versions = list.groups.into_iter().flat_map(|group| group.versions);
    let versions = list
        .versions
        .into_iter()
        .chain(group_versions.map(|version| version.group_version));
    let mut found = Vec::new();
    for version in versions {
        // A group whose server is away is not there.
        let Ok(offered) = api
            .parsed::<OldResources>(&format!("{root}/{version}"), "application/json")
            .await
        else {
            continue;
        };
        let (group, version) = match offered.group_version.split_once('/') {
            Some((group, version)) => (group.to_owned(), version.to_owned()),
            None => (String::new(), offered.group_version.clone()),
        };
        let part_of = |name: &str| {
            let prefix = format!("{name}/");
            let parts = offered
                .resources
                .iter()
                .filter_map(|part| part.name.strip_prefix(&prefix));
            parts.map(str::to_owned).collect()
        };
        for resource in offered
            .resources
            .iter()
            .filter(|resource| !resource.name.contains('/'))
        {
            found.push(Arc::new(Resource {
                group: group.clone(),
                version: version.clone(),
                plural: resource.name.clone(),
                singular: resource.singular_name.clone(),
                kind: resource.kind.clone(),
                short_names: resource.short_names.clone(),
                categories: resource.categories.clone(),
                verbs: resource.verbs.clone(),
                subresources: part_of(&resource.name),
                is_namespaced: resource.namespaced,
            }));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_meant_by_any_of_its_names() {
        let deployments = Resource {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            plural: "deployments".to_owned(),
            singular: "deployment".to_owned(),
            kind: "Deployment".to_owned(),
            short_names: vec!["deploy".to_owned()],
            ..Resource::default()
        };
        for word in [
            "deployments",
            "deployment",
            "deploy",
            "deploy.apps",
            "deployments.v1.apps",
        ] {
            assert!(means(word, &deployments), "{word}");
        }
        for word in ["deployments.batch", "deployments.v2.apps", "apps", "deployments."] {
            assert!(!means(word, &deployments), "{word}");
        }
    }
}
