//! The custom resource `Workflow`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::CustomResource;
use kubecontroller::phase::PhaseStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A graph of activities.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tool.wukong.com",
    version = "v1",
    kind = "Workflow",
    namespaced,
    shortname = "wf",
    status = "WorkflowStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#
)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkflowSpec {
    /// Start and end events, which do nothing.
    pub events: Vec<Event>,
    /// The activities.
    pub activities: Vec<Activity>,
    /// Forks and joins, which do nothing. Like every vertex, a join waits for all its predecessors.
    pub gateways: Vec<Gateway>,
    /// The order of the vertices.
    pub edges: Vec<Edge>,
}

/// A start or end event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// The name in edges.
    pub name: String,
}

/// An activity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    /// The name in edges.
    pub name: String,
    /// The type of the activity.
    #[serde(rename = "type", default)]
    pub kind: ActivityKind,
    /// The program of a shell activity.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The arguments of the program or the function.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The function of a function activity.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub function: String,
}

/// The type of an activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActivityKind {
    /// Does nothing.
    #[default]
    Basic,
    /// Runs a program on the machine of the controller, if the settings allow it.
    Shell,
    /// Calls a compiled-in function by name.
    Function,
}

/// A fork or a join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gateway {
    /// The name in edges.
    pub name: String,
}

/// An edge of the graph: `obj1` precedes `obj2`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Edge {
    /// The predecessor.
    pub obj1: String,
    /// The successor.
    pub obj2: String,
}

/// The observed state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkflowStatus {
    /// The state of the vertices that were started.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub entries: BTreeMap<String, Entry>,
    /// The state of the state machine.
    #[serde(flatten)]
    pub phases: PhaseStatus,
}

/// The state of a vertex.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The phase.
    pub phase: EntryPhase,
    /// The output, or why it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The position in the order of completion, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<MicroTime>,
}

/// The phases of a vertex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EntryPhase {
    /// Started.
    #[default]
    Running,
    /// Completed.
    Done,
    /// Failed.
    Failed,
}

kubecontroller::phased!(Workflow);
