//! Discovery of all served resources, including custom ones.

use std::{collections::HashSet, time::Duration};

use futures_util::FutureExt;
use kubecontroller::{
    informer::{DeltaStream, Informer},
    resource::Resource,
    writer::ApiWriter,
};
use serde::{Deserialize, de::IgnoredAny};
use tokio::time;

use crate::objects::Projection;

const LIST: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A custom resource is served shortly after its CRD was stored: discovery is repeated this often.
const RETRIES: u32 = 5;
const RETRY_DELAY: Duration = Duration::from_millis(200);

pub(crate) type CustomResourceDefinition = Projection<IgnoredAny>;

/// Follows the resources of a server as they are added and removed.
pub(crate) struct ResourceDiscovery {
    writer: ApiWriter,
    changes: DeltaStream<CustomResourceDefinition>,
    /// Discovery attempts left before waiting for the next CRD event.
    retries_left: u32,
}

/// A served resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedResource {
    /// The resource.
    pub resource: Resource,
    /// Supported verbs.
    pub verbs: Vec<Box<str>>,
}

/// All resources, each in its preferred version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryResult {
    /// The resources.
    pub resources: Vec<ServedResource>,
    /// Groups and versions whose discovery failed, because their API server does not respond.
    pub failed: Vec<String>,
}

#[derive(Deserialize)]
struct GroupDiscoveryList {
    #[serde(default)]
    items: Vec<GroupDiscovery>,
}

#[derive(Deserialize)]
struct GroupDiscovery {
    #[serde(default)]
    metadata: GroupMeta,
    #[serde(default)]
    versions: Vec<VersionDiscovery>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GroupMeta {
    name: String,
}

#[derive(Deserialize)]
struct VersionDiscovery {
    #[serde(rename = "version")]
    name: String,
    #[serde(default)]
    resources: Vec<ResourceDiscoveryEntry>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscoveryEntry {
    resource: String,
    #[serde(default)]
    response_kind: ResponseKind,
    scope: String,
    #[serde(default)]
    verbs: Vec<Box<str>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResponseKind {
    kind: String,
}

// --- ResourceDiscovery ---

impl ResourceDiscovery {
    pub(crate) async fn new(writer: &ApiWriter, definitions: &Informer<CustomResourceDefinition>) -> Self {
        let changes = definitions.delta_stream();
        changes.wait_for_sync().await;
        ResourceDiscovery {
            writer: writer.clone(),
            changes,
            retries_left: RETRIES,
        }
    }

    /// The resources, now and each time they may have changed; `None` after the informer stopped.
    pub(crate) async fn next(&mut self) -> kube::Result<Option<DiscoveryResult>> {
        if self.retries_left == 0 {
            if self.changes.next().await.is_none() {
                return Ok(None);
            }
            while self.changes.next().now_or_never().flatten().is_some() {}
            self.retries_left = RETRIES;
        } else if self.retries_left < RETRIES {
            time::sleep(RETRY_DELAY).await;
        }
        self.retries_left -= 1;
        DiscoveryResult::fetch(&self.writer).await.map(Some)
    }
}

// --- DiscoveryResult ---

impl DiscoveryResult {
    /// Queries the server.
    // upstream: pkg/controller/garbagecollector/garbagecollector.go GetDeletableResources; preferred versions of aggregated discovery
    pub async fn fetch(writer: &ApiWriter) -> kube::Result<Self> {
        let mut discovered = DiscoveryResult::default();
        for path in ["/api", "/apis"] {
            let groups: GroupDiscoveryList = writer.get_path(path, LIST).await?;
            discovered.add(groups);
        }
        Ok(discovered)
    }

    /// Resources that support all these verbs.
    pub fn with_verbs(&self, verbs: &[&str]) -> impl Iterator<Item = &Resource> {
        let can = |served: &&ServedResource| {
            verbs
                .iter()
                .all(|verb| served.verbs.iter().any(|own| **own == **verb))
        };
        self.resources.iter().filter(can).map(|served| &served.resource)
    }

    fn add(&mut self, groups: GroupDiscoveryList) {
        for group in groups.items {
            let mut seen = HashSet::new();
            for version in group.versions {
                if version.freshness == "Stale" {
                    let parts = [group.metadata.name.as_str(), version.name.as_str()];
                    let named = parts.iter().filter(|part| !part.is_empty());
                    self.failed.push(named.copied().collect::<Vec<_>>().join("/"));
                }
                for entry in version.resources {
                    if !seen.insert(entry.resource.clone()) {
                        continue;
                    }
                    self.resources.push(ServedResource {
                        resource: Resource {
                            group: group.metadata.name.clone().into(),
                            version: version.name.clone().into(),
                            plural: entry.resource.into(),
                            kind: entry.response_kind.kind.into(),
                            namespaced: entry.scope == "Namespaced",
                        },
                        verbs: entry.verbs,
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_the_preferred_version_of_a_resource() {
        let groups = serde_json::json!({"items": [{"metadata": {"name": "shop.example"}, "versions": [
            {"version": "v2", "freshness": "Current", "resources": [
                {"resource": "carts", "responseKind": {"kind": "Cart"}, "scope": "Namespaced", "verbs": ["list", "delete"]}]},
            {"version": "v1", "freshness": "Stale", "resources": [
                {"resource": "carts", "responseKind": {"kind": "Cart"}, "scope": "Namespaced", "verbs": ["list"]},
                {"resource": "shops", "responseKind": {"kind": "Shop"}, "scope": "Cluster", "verbs": ["list"]}]}]}]});
        let mut discovered = DiscoveryResult::default();
        discovered.add(serde_json::from_value(groups).unwrap());
        let found: Vec<_> = discovered
            .with_verbs(&["list"])
            .map(|found| found.path("a"))
            .collect();
        assert_eq!(
            found,
            [
                "/apis/shop.example/v2/namespaces/a/carts",
                "/apis/shop.example/v1/shops"
            ]
        );
        assert_eq!(discovered.with_verbs(&["list", "delete"]).count(), 1);
        assert_eq!(discovered.failed, ["shop.example/v1"]);
    }
}
