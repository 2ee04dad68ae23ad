//! A CustomResourceDefinition, parsed for serving.

// upstream: staging/src/k8s.io/apimachinery/pkg/version/helpers.go CompareKubeAwareVersionStrings

use std::{cmp::Ordering, sync::Arc};

use serde_json::Value;
use thiserror::Error;

use super::{scale::Scale, strategy::CustomResourceStrategy};
use crate::{
    kinds::Scope,
    strategy::{Tree, TreeMut},
};

/// A definition.
#[derive(Debug)]
pub struct Definition {
    /// The API group.
    pub group: String,
    /// What the kind is called.
    pub names: DefinitionNames,
    /// Whether objects live in a namespace.
    pub scope: Scope,
    /// The versions, in the order of the definition.
    pub versions: Vec<DefinitionVersion>,
    /// How the versions become each other.
    pub conversion: Conversion,
    storage: usize,
}

/// What a kind is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionNames {
    /// The resource in paths, such as `crontabs`.
    pub plural: String,
    /// The resource in messages, such as `crontab`.
    pub singular: String,
    /// The kind, such as `CronTab`.
    pub kind: String,
    /// The kind of a list of objects.
    pub list_kind: String,
    /// What users may type instead.
    pub short_names: Vec<String>,
    /// The sets of resources it belongs to, such as `all`.
    pub categories: Vec<String>,
}

/// A version of a kind.
#[derive(Debug)]
pub struct DefinitionVersion {
    /// Its name, such as `v1`.
    pub name: String,
    /// Whether paths serve it.
    pub served: bool,
    /// Whether objects are stored in it.
    pub storage: bool,
    /// The warning for users of a deprecated version.
    pub deprecation: Option<String>,
    /// Whether the status has a path of its own.
    pub has_status: bool,
    /// Where the scale is found, if objects have one.
    pub scale: Option<Scale>,
    /// The rules of its objects.
    pub strategy: Arc<CustomResourceStrategy>,
}

/// How versions become each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Conversion {
    /// Only the apiVersion changes.
    None,
    /// A webhook does it: what `spec.conversion.webhook` states.
    Webhook(Value),
}

/// Why a definition cannot be served.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadDefinition {
    /// It names no group, resource or kind.
    #[error("the definition names no {0}")]
    Nameless(&'static str),
    /// None of its versions is the one objects are stored in.
    #[error("the definition has no storage version")]
    NoStorage,
}

/// Makes an object one of another version, where only the apiVersion differs.
pub fn convert(object: &mut Value, api_version: &str) {
    object.set("apiVersion", api_version);
}

// --- Definition ---

impl Definition {
    /// Reads a definition that was found to be valid.
    pub fn read(crd: &Value) -> Result<Definition, BadDefinition> {
        let spec = crd.at("spec");
        let names = DefinitionNames::read(spec.at("names"))?;
        let group = spec.text("group");
        if group.is_empty() {
            return Err(BadDefinition::Nameless("group"));
        }
        let versions: Vec<DefinitionVersion> = spec
            .items("versions")
            .iter()
            .map(|version| DefinitionVersion::read(version, spec))
            .collect();
        let storage = versions
            .iter()
            .position(|version| version.storage)
            .ok_or(BadDefinition::NoStorage)?;
        let conversion = spec.at("conversion");
        Ok(Definition {
            group: group.to_owned(),
            names,
            scope: scope(spec),
            versions,
            conversion: match conversion.text("strategy") {
                "Webhook" => Conversion::Webhook(conversion.at("webhook").clone()),
                _ => Conversion::None,
            },
            storage,
        })
    }

    /// A version by its name.
    pub fn version(&self, name: &str) -> Option<&DefinitionVersion> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The version objects are stored in.
    pub fn storage(&self) -> &DefinitionVersion {
        &self.versions[self.storage]
    }
}

/// Where the objects of a definition live.
fn scope(spec: &Value) -> Scope {
    match spec.text("scope") {
        "Cluster" => Scope::Cluster,
        _ => Scope::Namespaced,
    }
}

// --- DefinitionNames ---

impl DefinitionNames {
    fn read(names: &Value) -> Result<DefinitionNames, BadDefinition> {
        let text = |name: &str| names.text(name).to_owned();
        let texts = |name: &str| names.texts(name).map(str::to_owned).collect();
        for name in ["plural", "kind"] {
            if names.text(name).is_empty() {
                return Err(BadDefinition::Nameless(if name == "kind" {
                    "kind"
                } else {
                    "resource"
                }));
            }
        }
        Ok(DefinitionNames {
            plural: text("plural"),
            singular: text("singular"),
            kind: text("kind"),
            list_kind: text("listKind"),
            short_names: texts("shortNames"),
            categories: texts("categories"),
        })
    }
}

// --- DefinitionVersion ---

impl DefinitionVersion {
    fn read(version: &Value, spec: &Value) -> DefinitionVersion {
        let subresources = version.at("subresources");
        DefinitionVersion {
            name: version.text("name").to_owned(),
            served: version.flag("served"),
            storage: version.flag("storage"),
            deprecation: version.flag("deprecated").then(|| deprecation(version, spec)),
            has_status: subresources.has("status"),
            scale: subresources
                .has("scale")
                .then(|| Scale::read_from(subresources.at("scale"))),
            strategy: Arc::new(CustomResourceStrategy::new(version, spec)),
        }
    }
}

fn deprecation(version: &Value, spec: &Value) -> String {
    if version.has("deprecationWarning") {
        return version.text("deprecationWarning").to_owned();
    }
    let group = spec.text("group");
    let kind = spec.at("names").text("kind");
    let name = version.text("name");
    let newer = spec
        .items("versions")
        .iter()
        .filter(|other| other.flag("served") && !other.flag("deprecated"))
        .map(|other| other.text("name"))
        .filter(|other| compare_versions(name, other).is_lt())
        .max_by(|left, right| compare_versions(left, right));
    let warning = format!("{group}/{name} {kind} is deprecated");
    match newer {
        Some(newer) => format!("{warning}; use {group}/{newer} {kind}"),
        None => warning,
    }
}

/// Which of two versions is to be preferred: `v2` over `v1`, that over `v1beta2`, that over `v1alpha1`, and these over
/// names of any other form, of which the first in the alphabet is preferred.
pub fn compare_versions(left: &str, right: &str) -> Ordering {
    match (rank(left), rank(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => right.cmp(left),
    }
}

/// Stability, major version, minor version of a name such as `v1beta2`.
fn rank(name: &str) -> Option<(u8, u64, u64)> {
    let rest = name.strip_prefix('v')?;
    let number = |text: &str| {
        let plain = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse().ok()).flatten()
    };
    for (stability, word) in [(1, "beta"), (0, "alpha")] {
        if let Some((major, minor)) = rest.split_once(word) {
            let minor = if minor.is_empty() { 0 } else { number(minor)? };
            return Some((stability, number(major)?, minor));
        }
    }
    Some((2, number(rest)?, 0))
}
