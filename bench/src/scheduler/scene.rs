//! Clusters and pods, as upstream measures with them.

use std::sync::Arc;

use k3_scheduler::{
    StringInterner,
    object::{Node, Pod, SchedulerObject, Service},
};
use serde_json::{Value, json};

/// A cluster, and the pods that are to be placed in it.
pub(super) struct SchedulingScenario {
    /// What it is called.
    pub(super) name: &'static str,
    /// How many zones the nodes are in.
    zones: usize,
    /// What is there already.
    pub(super) before: Kind,
    /// Of 5,000 nodes, how many of these.
    count_before: usize,
    /// What is placed while the clock runs.
    pub(super) measured: Kind,
    /// Of 5,000 nodes, how many of these.
    count: usize,
}

/// What a pod asks.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Some processor and memory.
    Plain,
    /// To be spread evenly over zones.
    Spread,
    /// To be alone of its kind on its host.
    Alone,
    /// To be in the zone of its kind.
    Together,
    /// To be of a service, and so to be spread where that is possible.
    Serving,
    /// To be rather not on one host with its kind.
    RatherAlone,
}

/// The scenes, the plain one first.
pub(super) const SCENES: &[SchedulingScenario] = &[
    SchedulingScenario {
        name: "basic",
        zones: 1,
        before: Kind::Plain,
        count_before: 1000,
        measured: Kind::Plain,
        count: 10_000,
    },
    SchedulingScenario {
        name: "spread",
        zones: 3,
        before: Kind::Plain,
        count_before: 5000,
        measured: Kind::Spread,
        count: 5000,
    },
    SchedulingScenario {
        name: "anti-affinity",
        zones: 1,
        before: Kind::Alone,
        count_before: 1000,
        measured: Kind::Alone,
        count: 2000,
    },
    SchedulingScenario {
        name: "affinity",
        zones: 1,
        before: Kind::Together,
        count_before: 5000,
        measured: Kind::Together,
        count: 5000,
    },
    SchedulingScenario {
        name: "services",
        zones: 3,
        before: Kind::Plain,
        count_before: 1000,
        measured: Kind::Serving,
        count: 10_000,
    },
    SchedulingScenario {
        name: "preferred anti-affinity",
        zones: 1,
        before: Kind::RatherAlone,
        count_before: 5000,
        measured: Kind::RatherAlone,
        count: 5000,
    },
];

const FULL: usize = 5000;
/// How many services there are; pods of one are created one after the other.
const SERVICES: usize = 50;

impl SchedulingScenario {
    pub(super) fn pods(&self, nodes: usize) -> usize {
        self.count * nodes / FULL
    }

    pub(super) fn pods_before(&self, nodes: usize) -> usize {
        self.count_before * nodes / FULL
    }
}

pub(super) fn node_name(index: usize) -> String {
    format!("scheduler-perf-{index}")
}

/// Makes objects as they would be read.
#[derive(Default)]
pub(super) struct Builder {
    interner: StringInterner,
}

impl Builder {
    pub(super) fn node(&mut self, scene: &SchedulingScenario, index: usize) -> Arc<Node> {
        let name = node_name(index);
        let zone = format!("zone-{}", index % scene.zones);
        Arc::new(self.read(json!({
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone,
                "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
            }},
            "status": {"allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"}},
        })))
    }

    pub(super) fn services(&mut self) -> Vec<Service> {
        let service = |index: usize| {
            json!({
                "metadata": {"name": format!("s{index}"), "namespace": "default"},
                "spec": {"selector": {"service": format!("s{index}")}},
            })
        };
        (0..SERVICES).map(|index| self.read(service(index))).collect()
    }

    pub(super) fn pods(&mut self, kind: Kind, name: &str, count: usize) -> Vec<Arc<Pod>> {
        (0..count)
            .map(|index| Arc::new(self.pod_of(kind, name, index, count)))
            .collect()
    }

    pub(super) fn pod(&mut self, kind: Kind, name: &str, index: usize) -> Pod {
        self.pod_of(kind, name, index, index + 1)
    }

    fn pod_of(&mut self, kind: Kind, name: &str, index: usize, count: usize) -> Pod {
        let mut pod = json!({
            "metadata": {
                "name": format!("{name}-{index}"), "namespace": "default", "resourceVersion": index.to_string(),
                "uid": format!("4a6d7c1e-0000-4000-8000-{index:012}{}", &name[..1]), "labels": {"app": "pause"},
            },
            "spec": {
                "schedulerName": "default-scheduler",
                "containers": [{"name": "pause", "image": "registry/pause:3.10", "ports": [{"containerPort": 80}],
                    "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}}}],
            },
        });
        let term = |label: &str, key: &str| json!({"labelSelector": {"matchLabels": {"color": label}}, "topologyKey": key});
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let (labels, affinity): (Value, Value) = match kind {
            Kind::Plain => return self.read(pod),
            Kind::Spread => {
                pod["spec"]["topologySpreadConstraints"] = json!([{
                    "maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"color": "blue"}},
                }]);
                (json!({"color": "blue"}), json!({}))
            }
            Kind::Alone => {
                let terms = json!([term("green", "kubernetes.io/hostname")]);
                (
                    json!({"color": "green"}),
                    json!({"podAntiAffinity": {required: terms}}),
                )
            }
            Kind::Together => {
                let terms = json!([term("red", "topology.kubernetes.io/zone")]);
                (json!({"color": "red"}), json!({"podAffinity": {required: terms}}))
            }
            Kind::RatherAlone => {
                let terms =
                    json!([{"weight": 1, "podAffinityTerm": term("white", "kubernetes.io/hostname")}]);
                let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": terms});
                (json!({"color": "white"}), json!({"podAntiAffinity": preferred}))
            }
            Kind::Serving => (
                json!({"service": format!("s{}", index * SERVICES / count)}),
                json!({}),
            ),
        };
        pod["metadata"]["labels"] = labels;
        pod["spec"]["affinity"] = affinity;
        self.read(pod)
    }

    fn read<T: SchedulerObject>(&mut self, object: Value) -> T {
        let source = serde_json::from_value(object).expect("the benchmark writes objects that can be read");
        T::read(&source, &mut self.interner)
    }
}
