//! Discovery of the server's API resources, in as few requests as possible.
//!
//! A resource of the core group (pods, services, nodes) costs one request, any other two. Servers without aggregated discovery
//! (KEP-3352) are asked once per group version.

use std::sync::Arc;

use serde::Deserialize;

use crate::{api::ApiClient, api_resource::ApiResource, error::ClientError};

const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// The API resources discovered so far.
#[derive(Debug, Default)]
pub(crate) struct DiscoveryCache {
    /// Resources of the core group.
    core: Option<Vec<Arc<ApiResource>>>,
    /// Resources of all other groups in the server's order, preferred versions first.
    groups: Option<Vec<Arc<ApiResource>>>,
}

#[derive(Deserialize)]
struct GroupList {
    #[serde(default)]
    items: Vec<GroupDiscovery>,
    /// Set by a server without aggregated discovery.
    #[serde(default)]
    groups: Vec<LegacyGroup>,
    #[serde(default)]
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct GroupDiscovery {
    #[serde(default)]
    metadata: GroupMetadata,
    #[serde(default)]
    versions: Vec<VersionDiscovery>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupMetadata {
    name: String,
}

#[derive(Deserialize)]
struct VersionDiscovery {
    version: String,
    #[serde(default)]
    resources: Vec<ApiResourceDiscovery>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ApiResourceDiscovery {
    resource: String,
    response_kind: ResponseKind,
    scope: String,
    singular_resource: String,
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
    subresources: Vec<SubresourceDiscovery>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseKind {
    kind: String,
}

#[derive(Deserialize)]
struct SubresourceDiscovery {
    subresource: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyGroup {
    versions: Vec<LegacyGroupVersion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyGroupVersion {
    group_version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyResourceList {
    group_version: String,
    resources: Vec<LegacyResource>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LegacyResource {
    name: String,
    singular_name: String,
    namespaced: bool,
    kind: String,
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
}

// --- DiscoveryCache ---

impl DiscoveryCache {
    // upstream: staging/src/k8s.io/apimachinery/pkg/api/meta/priority.go KindsFor
    /// Returns the resource with the name or short name `word`, or all resources of a category such as `all`.
    pub(crate) async fn find(
        &mut self,
        api: &ApiClient,
        word: &str,
    ) -> Result<Vec<Arc<ApiResource>>, ClientError> {
        let lower = word.to_lowercase();
        if !lower.contains('.')
            && let Some(found) = self
                .core(api)
                .await?
                .iter()
                .find(|resource| resource.has_name(&lower))
        {
            return Ok(vec![found.clone()]);
        }
        let all = self.all(api).await?;
        if let Some(found) = all.iter().find(|resource| matches_argument(&lower, resource)) {
            return Ok(vec![found.clone()]);
        }
        let mut members: Vec<Arc<ApiResource>> = Vec::new();
        for resource in all {
            let is_known = members
                .iter()
                .any(|member| member.plural == resource.plural && member.group == resource.group);
            if resource.categories.contains(&lower) && !is_known {
                members.push(resource);
            }
        }
        if members.is_empty() {
            return Err(ClientError::new(format!(
                "the server doesn't have a resource type {word:?}"
            )));
        }
        Ok(members)
    }

    /// Like `find`, but rejects a category.
    pub(crate) async fn find_one(
        &mut self,
        api: &ApiClient,
        word: &str,
    ) -> Result<Arc<ApiResource>, ClientError> {
        let found = self.find(api, word).await?;
        match found.as_slice() {
            [one] => Ok(one.clone()),
            _ => Err(ClientError::usage(format!(
                "{word:?} is a category; name one resource type"
            ))),
        }
    }

    /// Returns the resource of an object with this `apiVersion` and `kind`.
    pub(crate) async fn find_kind(
        &mut self,
        api: &ApiClient,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Arc<ApiResource>>, ClientError> {
        let resources = if api_version.contains('/') {
            self.groups(api).await?
        } else {
            self.core(api).await?
        };
        let found = resources
            .iter()
            .find(|resource| resource.kind == kind && resource.api_version() == api_version);
        Ok(found.cloned())
    }

    /// Discards the resources that a `CustomResourceDefinition` can change; the next lookup requests them again.
    pub(crate) fn invalidate(&mut self) {
        self.groups = None;
    }

    /// Returns all resources, the core group first.
    pub(crate) async fn all(&mut self, api: &ApiClient) -> Result<Vec<Arc<ApiResource>>, ClientError> {
        let mut all = self.core(api).await?.to_vec();
        all.extend_from_slice(self.groups(api).await?);
        Ok(all)
    }

    async fn core(&mut self, api: &ApiClient) -> Result<&[Arc<ApiResource>], ClientError> {
        let found = match self.core.take() {
            Some(known) => known,
            None => discover_group_list(api, "/api").await?,
        };
        Ok(self.core.insert(found))
    }

    async fn groups(&mut self, api: &ApiClient) -> Result<&[Arc<ApiResource>], ClientError> {
        let found = match self.groups.take() {
            Some(known) => known,
            None => discover_group_list(api, "/apis").await?,
        };
        Ok(self.groups.insert(found))
    }
}

/// Whether an argument means a resource: `deploy`, `deployments.apps`, `deployments.v1.apps`.
fn matches_argument(word: &str, resource: &ApiResource) -> bool {
    if resource.has_name(word) {
        return true;
    }
    let Some((name, rest)) = word.split_once('.') else {
        return false;
    };
    let is_versioned = || {
        rest.split_once('.')
            .is_some_and(|(version, group)| version == resource.version && group == resource.group)
    };
    resource.has_name(name)
        && (rest == resource.group
            || is_versioned()
            || (resource.group.is_empty() && rest == resource.version))
}

async fn discover_group_list(api: &ApiClient, root: &str) -> Result<Vec<Arc<ApiResource>>, ClientError> {
    let list: GroupList = api.parsed(root, ACCEPT).await?;
    if list.items.is_empty() {
        return discover_each_version(api, root, list).await;
    }
    let mut found = Vec::new();
    for group in list.items {
        for version in group.versions {
            for resource in version.resources {
                found.push(Arc::new(ApiResource {
                    group: group.metadata.name.clone(),
                    version: version.version.clone(),
                    singular: resource.singular_resource,
                    kind: resource.response_kind.kind,
                    short_names: resource.short_names,
                    categories: resource.categories,
                    verbs: resource.verbs,
                    subresources: resource
                        .subresources
                        .into_iter()
                        .map(|subresource| subresource.subresource)
                        .collect(),
                    is_namespaced: resource.scope == "Namespaced",
                    plural: resource.resource,
                }));
            }
        }
    }
    Ok(found)
}

/// Discovers the resources of a server without aggregated discovery.
async fn discover_each_version(
    api: &ApiClient,
    root: &str,
    list: GroupList,
) -> Result<Vec<Arc<ApiResource>>, ClientError> {
    let group_versions = list.groups.into_iter().flat_map(|group| group.versions);
    let versions = list
        .versions
        .into_iter()
        .chain(group_versions.map(|version| version.group_version));
    let mut found = Vec::new();
    for version in versions {
        // The server of an aggregated API may be unavailable; its group is left out, as in kubectl.
        let Ok(resource_list) = api
            .parsed::<LegacyResourceList>(&format!("{root}/{version}"), "application/json")
            .await
        else {
            continue;
        };
        let (group, version) = match resource_list.group_version.split_once('/') {
            Some((group, version)) => (group.to_owned(), version.to_owned()),
            None => (String::new(), resource_list.group_version.clone()),
        };
        let subresources_of = |name: &str| {
            let prefix = format!("{name}/");
            let subresources = resource_list
                .resources
                .iter()
                .filter_map(|resource| resource.name.strip_prefix(&prefix));
            subresources.map(str::to_owned).collect()
        };
        for resource in resource_list
            .resources
            .iter()
            .filter(|resource| !resource.name.contains('/'))
        {
            found.push(Arc::new(ApiResource {
                group: group.clone(),
                version: version.clone(),
                plural: resource.name.clone(),
                singular: resource.singular_name.clone(),
                kind: resource.kind.clone(),
                short_names: resource.short_names.clone(),
                categories: resource.categories.clone(),
                verbs: resource.verbs.clone(),
                subresources: subresources_of(&resource.name),
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
    fn finds_a_resource_by_any_of_its_names() {
        let deployments = ApiResource {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            plural: "deployments".to_owned(),
            singular: "deployment".to_owned(),
            kind: "Deployment".to_owned(),
            short_names: vec!["deploy".to_owned()],
            ..ApiResource::default()
        };
        for word in [
            "deployments",
            "deployment",
            "deploy",
            "deploy.apps",
            "deployments.v1.apps",
        ] {
            assert!(matches_argument(word, &deployments), "{word}");
        }
        for word in ["deployments.batch", "deployments.v2.apps", "apps", "deployments."] {
            assert!(!matches_argument(word, &deployments), "{word}");
        }
    }
}
