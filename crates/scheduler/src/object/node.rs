//! Nodes.

use kubecontroller::object::SlimMeta;
use serde::Deserialize;

use super::{ResourceList, Resources, SchedulerObject, spec::tagged};
use crate::{
    interner::{StringInterner, Text},
    labels::Labels,
};

/// What is read of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeFields {
    /// What it is to be.
    pub spec: RawNodeSpec,
    /// What it is.
    pub status: RawNodeStatus,
}

/// The specification of a node as far as scheduling reads it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawNodeSpec {
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    /// What keeps pods away.
    pub taints: Vec<RawTaint>,
}

/// The status of a node as far as scheduling reads it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawNodeStatus {
    /// What it can give.
    pub allocatable: ResourceList,
    /// The images it has.
    pub images: Vec<RawImages>,
}

/// A taint as it stands in a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawTaint {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What it does.
    pub effect: String,
}

/// A toleration as it stands in a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawToleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
}

/// An image as it stands in a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawImages {
    names: Vec<String>,
    size_bytes: i64,
}

/// A node as it is kept.
// upstream: pkg/scheduler/framework/types.go NodeInfo
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Text,
    /// Its labels.
    pub labels: Labels,
    /// What keeps pods away.
    pub taints: Box<[Taint]>,
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    /// What it can give.
    pub allocatable: Resources,
    /// How many pods it can run.
    pub pods: i64,
    /// The images it has, with their sizes; sorted.
    pub images: Box<[(Text, i64)]>,
}

/// What keeps pods away from a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    /// Its name.
    pub key: Text,
    /// Its value.
    pub value: Text,
    /// What it does.
    pub effect: Effect,
}

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// No new pods are scheduled.
    NoSchedule,
    /// Others are better.
    PreferNoSchedule,
    /// No new pods are scheduled, and running ones are evicted.
    NoExecute,
    /// Something that is not known here.
    Other,
}

/// A taint that a pod bears.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    key: Text,
    /// Any value when there is none.
    value: Option<Text>,
    /// Any effect when there is none.
    effect: Option<Effect>,
    known: bool,
}

impl SchedulerObject for Node {
    type Fields = NodeFields;

    fn read(meta: &SlimMeta, fields: &NodeFields, interner: &mut StringInterner) -> Self {
        let NodeFields { spec, status } = fields;
        let taints = spec.taints.iter().map(|raw| Taint {
            key: interner.text(&raw.key),
            value: interner.text(&raw.value),
            effect: Effect::read(&raw.effect),
        });
        let taints = taints.collect();
        let images = status.images.iter();
        let images = images.flat_map(|image| image.names.iter().map(|name| (name, image.size_bytes)));
        let mut images: Vec<_> = images
            .map(|(name, size)| (interner.text(&tagged(name)), size))
            .collect();
        images.sort();
        images.dedup_by(|later, earlier| later.0 == earlier.0);
        Node {
            name: interner.text(&meta.name),
            labels: Labels::read(meta.labels.iter(), interner),
            taints,
            unschedulable: spec.unschedulable,
            allocatable: Resources::read(&status.allocatable, interner),
            pods: status.allocatable.get("pods").map_or(0, |amount| amount.value),
            images: images.into(),
        }
    }
}

impl Node {
    /// The zone it is in; nodes of different zones take turns.
    pub fn zone(&self) -> String {
        let label = |old: &str, new: &str| {
            self.labels
                .get(old)
                .or_else(|| self.labels.get(new))
                .map_or("", |text| text)
        };
        let zone = label(
            "failure-domain.beta.kubernetes.io/zone",
            "topology.kubernetes.io/zone",
        );
        let region = label(
            "failure-domain.beta.kubernetes.io/region",
            "topology.kubernetes.io/region",
        );
        format!("{region}\0{zone}")
    }

    /// The size of an image that is there.
    pub fn image(&self, name: &Text) -> Option<i64> {
        let found = self.images.binary_search_by(|(known, _)| known.cmp(name));
        found.ok().map(|at| self.images[at].1)
    }

    /// Whether a taint keeps out a pod that bears these.
    pub fn has_untolerated_taint(&self, tolerations: &[Toleration]) -> bool {
        let hard = self
            .taints
            .iter()
            .filter(|taint| matches!(taint.effect, Effect::NoSchedule | Effect::NoExecute));
        hard.into_iter().any(|taint| !taint.borne(tolerations))
    }
}

impl Taint {
    /// Whether one of these bears it.
    pub fn borne(&self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|toleration| toleration.tolerates(self))
    }
}

impl Effect {
    fn read(text: &str) -> Self {
        match text {
            "NoSchedule" => Effect::NoSchedule,
            "PreferNoSchedule" => Effect::PreferNoSchedule,
            "NoExecute" => Effect::NoExecute,
            _ => Effect::Other,
        }
    }
}

impl Toleration {
    /// Takes a toleration as it was read.
    pub fn read(raw: &RawToleration, interner: &mut StringInterner) -> Self {
        Toleration {
            key: interner.text(&raw.key),
            value: (raw.operator != "Exists").then(|| interner.text(&raw.value)),
            effect: (!raw.effect.is_empty()).then(|| Effect::read(&raw.effect)),
            known: matches!(raw.operator.as_str(), "" | "Equal" | "Exists"),
        }
    }

    /// Whether it may be about taints that only make others better.
    pub fn is_soft(&self) -> bool {
        self.effect
            .is_none_or(|effect| effect == Effect::PreferNoSchedule)
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        self.known
            && self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn toleration_matches_key_operator_and_effect() {
        let mut interner = StringInterner::default();
        let taint = Taint {
            key: "k".into(),
            value: "v".into(),
            effect: Effect::NoSchedule,
        };
        for (raw, tolerates) in [
            (json!({"key": "k", "value": "v", "effect": "NoSchedule"}), true),
            (json!({"key": "k", "operator": "Equal", "value": "v"}), true),
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "value": "w"}), false),
            (
                json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}),
                false,
            ),
            (json!({"key": "l", "operator": "Exists"}), false),
            (json!({"key": "k", "operator": "Gt", "value": "v"}), false),
        ] {
            let read = Toleration::read(&serde_json::from_value(raw.clone()).unwrap(), &mut interner);
            assert_eq!(read.tolerates(&taint), tolerates, "{raw}");
        }
    }
}
