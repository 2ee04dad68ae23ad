//! Served groups, versions and resources: the data of all discovery documents.

use k3_api::{
    base64,
    custom::compare_versions,
    kinds::{Kind, Persistence, builtin},
};
use ring::digest::{SHA256, digest};

use crate::{
    custom::{DefinitionRegistry, ServedDefinition},
    usage,
};

/// An API group; the core group has no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiscoveryGroup {
    /// Its name, such as `apps`.
    pub name: String,
    /// Its versions, the one clients should prefer first.
    pub versions: Vec<DiscoveryVersion>,
}

/// A version of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiscoveryVersion {
    /// Its name, such as `v1`.
    pub name: String,
    /// What it serves, sorted by name.
    pub resources: Vec<DiscoveryResource>,
}

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiscoveryResource {
    /// The name in paths, such as `deployments`.
    pub plural: String,
    /// The name in words, such as `deployment`.
    pub singular: String,
    /// The kind of its objects.
    pub kind: String,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// What can be done, sorted.
    pub verbs: Vec<String>,
    /// What users may type instead of the name.
    pub short_names: Vec<String>,
    /// The sets of resources it belongs to.
    pub categories: Vec<String>,
    /// Stands for the group, version and kind in which objects are stored; see [`storage_hash`]. None for what is
    /// not stored.
    pub storage_hash: Option<String>,
    /// Group and version of its kind, if the aggregated form includes them, as for custom resources.
    pub group_version: Option<(String, String)>,
    /// What can be done with a part of an object.
    pub subresources: Vec<DiscoverySubresource>,
}

/// A part of an object with a path of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiscoverySubresource {
    /// Its name in paths, such as `scale`.
    pub name: String,
    /// Group and version of its kind, if they are not those it is served in.
    pub of: Option<(String, String)>,
    /// Its kind, such as `Scale`.
    pub kind: String,
    /// What can be done, sorted.
    pub verbs: Vec<String>,
}

/// Kinds that upstream stores in another group or version than it prefers to serve: group and kind, then where.
const STORED_ELSEWHERE: [(&str, &str, &str); 7] = [
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "apiextensions.k8s.io/v1beta1",
    ),
    ("autoscaling", "HorizontalPodAutoscaler", "autoscaling/v2"),
    (
        "certificates.k8s.io",
        "ClusterTrustBundle",
        "certificates.k8s.io/v1beta1",
    ),
    (
        "certificates.k8s.io",
        "PodCertificateRequest",
        "certificates.k8s.io/v1beta1",
    ),
    ("events.k8s.io", "Event", "/v1"),
    ("resource.k8s.io", "DeviceTaintRule", "resource.k8s.io/v1beta2"),
    (
        "storagemigration.k8s.io",
        "StorageVersionMigration",
        "storagemigration.k8s.io/v1beta1",
    ),
];

/// The hash by which clients see that the form of stored objects has changed. `group_version` always has its
/// slash, also in the core group: `/v1`.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/storageversionhash.go StorageVersionHash
pub(crate) fn storage_hash(group_version: &str, kind: &str) -> String {
    let hash = digest(&SHA256, format!("{group_version}/{kind}").as_bytes());
    base64::encode(&hash.as_ref()[..8])
}

// --- DiscoveryGroup ---

impl DiscoveryGroup {
    /// The groups that are built in, in the order clients are to prefer them.
    pub(crate) fn builtin() -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for kind in builtin().all() {
            let group = entry(
                &mut groups,
                |group| group.name == *kind.group,
                || DiscoveryGroup {
                    name: kind.group.to_string(),
                    versions: Vec::new(),
                },
            );
            let version = entry(
                &mut group.versions,
                |version| version.name == *kind.version,
                || DiscoveryVersion {
                    name: kind.version.to_string(),
                    resources: Vec::new(),
                },
            );
            version.resources.push(DiscoveryResource::from(kind));
        }
        groups
    }

    /// Adds the groups, versions and resources of definitions. Custom groups are last, by name; in a version that is also built
    /// in, the built-in resources are first.
    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_discovery_controller.go sync
    pub(crate) fn add_custom(groups: &mut Vec<Self>, definitions: &DefinitionRegistry) {
        let known: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
        for served in definitions.all().values() {
            for (version, kind) in served.versions().filter(|(version, _)| version.served) {
                let group = entry(
                    groups,
                    |group| group.name == *kind.group,
                    || DiscoveryGroup {
                        name: kind.group.to_string(),
                        versions: Vec::new(),
                    },
                );
                let version_entry = entry(
                    &mut group.versions,
                    |known| known.name == version.name,
                    || DiscoveryVersion {
                        name: version.name.clone(),
                        resources: Vec::new(),
                    },
                );
                version_entry
                    .resources
                    .push(DiscoveryResource::custom(kind, served));
            }
        }
        let custom = groups.iter_mut().filter(|group| !known.contains(&group.name));
        for group in custom {
            group.versions.sort_by(|a, b| compare_versions(&b.name, &a.name));
        }
        groups[known.len()..].sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// What nodes and pods use.
    pub(crate) fn usage() -> Self {
        let resource = |plural: &str, kind: &str, namespaced| DiscoveryResource {
            plural: plural.to_owned(),
            singular: String::new(),
            kind: kind.to_owned(),
            namespaced,
            verbs: owned(&["get", "list"]),
            short_names: Vec::new(),
            categories: Vec::new(),
            storage_hash: None,
            group_version: Some((usage::GROUP.to_owned(), usage::VERSION.to_owned())),
            subresources: Vec::new(),
        };
        DiscoveryGroup {
            name: usage::GROUP.to_owned(),
            versions: vec![DiscoveryVersion {
                name: usage::VERSION.to_owned(),
                resources: vec![
                    resource("nodes", "NodeMetrics", false),
                    resource("pods", "PodMetrics", true),
                ],
            }],
        }
    }

    /// Group and version as objects carry them: `v1`, `apps/v1`.
    pub(super) fn api_version(&self, version: &DiscoveryVersion) -> String {
        if self.name.is_empty() {
            version.name.clone()
        } else {
            format!("{}/{}", self.name, version.name)
        }
    }
}

/// The item that is looked for, put at the end if it is not there.
fn entry<T>(list: &mut Vec<T>, is: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> &mut T {
    let version_entry = list.iter().position(is).unwrap_or_else(|| {
        list.push(new());
        list.len() - 1
    });
    &mut list[version_entry]
}

// --- DiscoveryResource ---

impl DiscoveryResource {
    fn custom(kind: &Kind, served: &ServedDefinition) -> Self {
        let mut resource = DiscoveryResource::from(kind);
        let stored = format!("{}/{}", kind.group, served.definition.storage().name);
        resource.storage_hash = Some(storage_hash(&stored, &kind.kind));
        resource.group_version = Some((kind.group.to_string(), kind.version.to_string()));
        if served.reports_terminating {
            let ending = ["patch", "create", "update"];
            resource.verbs.retain(|verb| !ending.contains(&verb.as_str()));
        }
        resource
    }
}

impl From<&Kind> for DiscoveryResource {
    fn from(kind: &Kind) -> Self {
        let here = format!("{}/{}", kind.group, kind.version);
        let elsewhere = STORED_ELSEWHERE
            .iter()
            .find(|(group, name, _)| *group == kind.group && *name == kind.kind);
        let stored_in = elsewhere.map_or(here.as_str(), |(_, _, stored_in)| stored_in);
        DiscoveryResource {
            plural: kind.plural.to_string(),
            singular: kind.singular.to_string(),
            kind: kind.kind.to_string(),
            namespaced: kind.is_namespaced(),
            verbs: owned(&kind.verbs),
            short_names: owned(&kind.short_names),
            categories: owned(&kind.categories),
            storage_hash: (kind.persistence == Persistence::Stored)
                .then(|| storage_hash(stored_in, &kind.kind)),
            group_version: None,
            subresources: kind
                .subresources
                .iter()
                .map(|part| DiscoverySubresource {
                    name: part.name.to_owned(),
                    of: ((&part.group, &part.version) != (&kind.group, &kind.version))
                        .then(|| (part.group.to_string(), part.version.to_string())),
                    kind: part.kind.to_string(),
                    verbs: owned(&part.verbs),
                })
                .collect(),
        }
    }
}

fn owned(texts: &[impl AsRef<str>]) -> Vec<String> {
    texts.iter().map(|text| text.as_ref().to_owned()).collect()
}
