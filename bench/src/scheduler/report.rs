//! What was measured of the scheduler.

use serde::Serialize;

use crate::{
    machine::MachineInfo,
    requirement::{self, Requirement, RequirementBound},
    table::{Table, grouped},
};

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct SchedulerReport {
    machine: MachineInfo,
    nodes: usize,
    pub(super) rows: Vec<Row>,
    pub(super) bytes_per_pod: Option<f64>,
    requirements: Vec<Requirement>,
}

/// One scene.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) scene: &'static str,
    pub(super) pods: usize,
    pub(super) rate: f64,
}

/// Pods per second: for the plain case what is asked, for the others four times what upstream guards.
const ASKED: &[(&str, &str, f64)] = &[
    ("basic", "basic, pods/s", 3000.0),
    ("spread", "topology spread, pods/s", 4.0 * 460.0),
    ("anti-affinity", "anti-affinity, pods/s", 4.0 * 180.0),
    ("affinity", "affinity, pods/s", 4.0 * 70.0),
];

impl SchedulerReport {
    pub(super) fn new(machine: MachineInfo, nodes: usize) -> Self {
        Self {
            machine,
            nodes,
            rows: Vec::new(),
            bytes_per_pod: None,
            requirements: Vec::new(),
        }
    }

    pub(super) fn check_requirements(&mut self) {
        let rate = |scene: &str| {
            self.rows
                .iter()
                .find(|row| row.scene == scene)
                .map(|row| row.rate)
        };
        let rates = ASKED.iter().map(|(scene, what, asked)| {
            Requirement::new(*what, RequirementBound::AtLeast(*asked), rate(scene))
        });
        let mut requirements: Vec<_> = rates.collect();
        requirements.push(Requirement::new(
            "a placed pod, bytes",
            RequirementBound::AtMost(1024.0),
            self.bytes_per_pod,
        ));
        self.requirements = requirements;
    }

    pub(super) fn print(&self) {
        let mut table = Table::new(["scene", "pods", "pods/s"]);
        for row in &self.rows {
            table.row([row.scene.to_owned(), row.pods.to_string(), grouped(row.rate)]);
        }
        table.print(&format!("Scheduling on {} nodes", self.nodes));
        requirement::print(&self.requirements);
    }
}
