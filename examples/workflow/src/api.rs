//! The kind `Workflow`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::CustomResource;
use kubecontroller::phase::PhaseStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A graph: what there is to do, and what comes before what.
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
    /// Where it begins and ends. They do nothing.
    pub events: Vec<Event>,
    /// What is done.
    pub activities: Vec<Activity>,
    /// Where it forks and joins. They do nothing, but a join waits for all that lead to it, as every vertex does.
    pub gateways: Vec<Gateway>,
    /// What comes before what.
    pub edges: Vec<Edge>,
}

/// A begin or an end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// What edges call it.
    pub name: String,
}

/// Something to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    /// What edges call it.
    pub name: String,
    /// How it is done.
    #[serde(rename = "type", default)]
    pub kind: ActivityKind,
    /// The program of a shell activity.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The arguments of the program, or of the function.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The function of a function activity.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub function: String,
}

/// How an activity is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActivityKind {
    /// It does nothing but take its place.
    #[default]
    Basic,
    /// A program of the machine that runs the controller; refused unless the settings allow it.
    Shell,
    /// A function that is compiled in, found by its name.
    Function,
}

/// A fork or a join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gateway {
    /// What edges call it.
    pub name: String,
}

/// The first comes before the second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Edge {
    /// The one that comes before.
    pub obj1: String,
    /// The one that comes after.
    pub obj2: String,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkflowStatus {
    /// The vertices that were begun.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub entries: BTreeMap<String, Entry>,
    /// The machine's part.
    #[serde(flatten)]
    pub phases: PhaseStatus,
}

/// How far a vertex is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The phase.
    pub phase: EntryPhase,
    /// What it said, or why it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The place in the order in which vertices ended; from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<MicroTime>,
}

/// The phases of a vertex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EntryPhase {
    /// It was begun.
    #[default]
    Running,
    /// It ended well.
    Done,
    /// It failed.
    Failed,
}

kubecontroller::phased!(Workflow);
