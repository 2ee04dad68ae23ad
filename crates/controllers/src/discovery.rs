//! Which resources the server has: all kinds, those of others too.

use std::{collections::HashSet, time::Duration};

use futures_util::FutureExt;
use kubecontroller::informer::{DeltaStream, Informer};
use serde::{Deserialize, de::IgnoredAny};
use tokio::time;

use crate::{objects::Thing, resource::Resource, writer::Writer};

const LIST: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A custom resource is served some moments after its definition was stored: so often, and so long, it is looked for.
const LOOKS: u32 = 5;
const LOOK_AFTER: Duration = Duration::from_millis(200);

/// The definition of a custom resource.
pub(crate) type Definition = Thing<IgnoredAny>;

/// Follows the resources of a server as they come and go.
pub(crate) struct Kinds {
    writer: Writer,
    changes: DeltaStream<Definition>,
    /// How often it has to be looked yet before the next change is waited for.
    looks: u32,
}

/// A resource that the server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// What it is.
    pub resource: Resource,
    /// What can be done with it.
    pub verbs: Vec<Box<str>>,
}

/// All resources, each in the version that the server prefers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// The resources.
    pub resources: Vec<Served>,
    /// Groups and versions of which nothing could be learned, because who serves them does not answer.
    pub failed: Vec<String>,
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Named,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "version")]
    name: String,
    #[serde(default)]
    resources: Vec<Entry>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    resource: String,
    #[serde(default)]
    response_kind: Kind,
    scope: String,
    #[serde(default)]
    verbs: Vec<Box<str>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Kind {
    kind: String,
}

// --- Kinds ---

impl Kinds {
    pub(crate) async fn new(writer: &Writer, definitions: &Informer<Definition>) -> Self {
        let changes = definitions.delta_stream();
        changes.wait_for_sync().await;
        Kinds {
            writer: writer.clone(),
            changes,
            looks: LOOKS,
        }
    }

    /// The resources, now and each time they may have changed; `None` when there is nobody left who tells.
    pub(crate) async fn next(&mut self) -> kube::Result<Option<Discovered>> {
        if self.looks == 0 {
            if self.changes.next().await.is_none() {
                return Ok(None);
            }
            while self.changes.next().now_or_never().flatten().is_some() {}
            self.looks = LOOKS;
        } else if self.looks < LOOKS {
            time::sleep(LOOK_AFTER).await;
        }
        self.looks -= 1;
        Discovered::ask(&self.writer).await.map(Some)
    }
}

// --- Discovered ---

impl Discovered {
    /// Asks the server.
    pub async fn ask(writer: &Writer) -> kube::Result<Self> {
        let mut discovered = Discovered::default();
        for path in ["/api", "/apis"] {
            let groups: Groups = writer.read(path, LIST).await?;
            discovered.add(groups);
        }
        Ok(discovered)
    }

    /// Those with which all of that can be done.
    pub fn with(&self, verbs: &[&str]) -> impl Iterator<Item = &Resource> {
        let can = |served: &&Served| {
            verbs
                .iter()
                .all(|verb| served.verbs.iter().any(|own| **own == **verb))
        };
        self.resources.iter().filter(can).map(|served| &served.resource)
    }

    fn add(&mut self, groups: Groups) {
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
                    self.resources.push(Served {
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
    fn a_resource_is_taken_in_the_version_that_comes_first() {
        let groups = serde_json::json!({"items": [{"metadata": {"name": "shop.example"}, "versions": [
            {"version": "v2", "freshness": "Current", "resources": [
                {"resource": "carts", "responseKind": {"kind": "Cart"}, "scope": "Namespaced", "verbs": ["list", "delete"]}]},
            {"version": "v1", "freshness": "Stale", "resources": [
                {"resource": "carts", "responseKind": {"kind": "Cart"}, "scope": "Namespaced", "verbs": ["list"]},
                {"resource": "shops", "responseKind": {"kind": "Shop"}, "scope": "Cluster", "verbs": ["list"]}]}]}]});
        let mut discovered = Discovered::default();
        discovered.add(serde_json::from_value(groups).unwrap());
        let found: Vec<_> = discovered.with(&["list"]).map(|found| found.path("a")).collect();
        assert_eq!(
            found,
            [
                "/apis/shop.example/v2/namespaces/a/carts",
                "/apis/shop.example/v1/shops"
            ]
        );
        assert_eq!(discovered.with(&["list", "delete"]).count(), 1);
        assert_eq!(discovered.failed, ["shop.example/v1"]);
    }
}
