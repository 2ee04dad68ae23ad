//! What can be wrong with a machine.

use std::{collections::BTreeMap, error::Error, fmt};

use super::{
    CLEANUP,
    builder::{Builder, Phase},
    handler::{Handler, Kind},
    machine::Machine,
    status::Phased,
};

/// Everything that is wrong with a machine, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineErrors {
    machine: String,
    list: Vec<String>,
}

// --- MachineErrors ---

impl MachineErrors {
    /// Each of them.
    pub fn list(&self) -> &[String] {
        &self.list
    }
}

impl fmt::Display for MachineErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the machine {:?} cannot work: {}",
            self.machine,
            self.list.join("; ")
        )
    }
}

impl Error for MachineErrors {}

/// All of them at once: who repairs one should not have to ask for the next.
pub(super) fn validation_errors<R: Phased>(builder: &Builder<R>) -> MachineErrors {
    let machine = &builder.machine;
    let mut list = Vec::new();
    names(builder, &mut list);
    if machine.phases.is_empty() {
        list.push("it has no phase in which anything is done".to_owned());
    } else if machine.get(&machine.initial).is_none() {
        list.push(format!(
            "the initial phase {:?} is not declared with a handler",
            machine.initial
        ));
    }
    for (name, phase) in &machine.phases {
        phase_mistakes(machine, name, phase, &mut list);
    }
    shared_errors(machine, &mut list);
    unreachable(machine, &mut list);
    if let Some(cleanup) = &machine.cleanup {
        tree(&format!("{CLEANUP:?}"), cleanup, &mut list);
    }
    MachineErrors {
        machine: machine.name.clone(),
        list,
    }
}

fn names<R: Phased>(builder: &Builder<R>, list: &mut Vec<String>) {
    let machine = &builder.machine;
    if machine.name.is_empty() {
        list.push("it has no name".to_owned());
    }
    list.extend(
        builder
            .repeated
            .iter()
            .map(|name| format!("phase {name:?} is declared twice")),
    );
    let ends: Vec<&String> = machine.succeeded.iter().chain(&machine.failed).collect();
    for (at, name) in ends.iter().enumerate() {
        if ends[..at].contains(name) {
            list.push(format!("terminal phase {name:?} is declared twice"));
        }
        if machine.get(name).is_some() {
            list.push(format!(
                "terminal phase {name:?} has a handler or transitions: nothing is done there"
            ));
        }
    }
    let working = machine.phases.iter().map(|(name, _)| name);
    for name in working.chain(ends) {
        if !is_label(name) {
            list.push(format!(
                "{name:?} is no name for a phase: it must be good as the value of a label"
            ));
        }
        if name == CLEANUP {
            list.push(format!("{CLEANUP:?} is no name for a phase: the clean-up has it"));
        }
    }
}

fn phase_mistakes<R: Phased>(machine: &Machine<R>, name: &str, phase: &Phase<R>, list: &mut Vec<String>) {
    match &phase.handler {
        None => list.push(format!("phase {name:?} has no handler")),
        Some(handler) => tree(&format!("{name:?}"), handler, list),
    }
    let ways = [("then", &phase.then), ("on_error", &phase.on_error)];
    let ways = ways.into_iter().filter_map(|(way, to)| Some((way, to.as_ref()?)));
    for (way, to) in ways.chain(phase.jumps.iter().map(|to| ("jumps_to", to))) {
        if !machine.knows(to) {
            list.push(format!(
                "phase {name:?} leads to {to:?} ({way}), which is not declared"
            ));
        }
    }
    if phase.then.is_none() && phase.jumps.is_empty() {
        list.push(format!("phase {name:?} leads nowhere: say then or jumps_to"));
    }
    if phase.on_error.as_deref() == Some(name) {
        list.push(format!("phase {name:?} is its own error phase"));
    }
    if phase.tries == Some(0) {
        list.push(format!("phase {name:?} has no tries"));
    }
    if phase.timeout.is_some_and(|timeout| timeout.is_zero()) {
        list.push(format!("phase {name:?} has no time"));
    }
    let limits = [
        ("a time-out", phase.timeout.is_some()),
        ("a limit of tries", phase.tries.is_some()),
        ("approval", phase.approval),
    ];
    for (limit, _) in limits
        .into_iter()
        .filter(|(_, set)| *set && phase.on_error.is_none())
    {
        list.push(format!("phase {name:?} has {limit} but no error phase to go to"));
    }
}

fn tree<R>(path: &str, handler: &Handler<R>, list: &mut Vec<String>) {
    if matches!(&handler.kind, Kind::Serial(children) | Kind::Parallel(children) if children.is_empty()) {
        list.push(format!("the composite handler of {path} has no children"));
    }
    let mut names: Vec<&str> = Vec::new();
    for child in handler.children() {
        if child.name.is_empty() {
            list.push(format!(
                "a child of the handler of {path} has no name: a closure or composite needs named()"
            ));
        } else if names.contains(&child.name.as_str()) {
            list.push(format!(
                "two children of the handler of {path} are named {:?}",
                child.name
            ));
        }
        names.push(&child.name);
        tree(&format!("{path}/{:?}", child.name), child, list);
    }
}

fn shared_errors<R>(machine: &Machine<R>, list: &mut Vec<String>) {
    let mut origins: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, phase) in &machine.phases {
        if let Some(to) = &phase.on_error {
            origins.entry(to).or_default().push(name);
        }
    }
    for (to, from) in origins.into_iter().filter(|(_, from)| from.len() > 1) {
        list.push(format!(
            "phases {from:?} share the error phase {to:?}, which makes it unresettable"
        ));
    }
}

fn unreachable<R: Phased>(machine: &Machine<R>, list: &mut Vec<String>) {
    let mut reached = vec![machine.initial.as_str()];
    let mut at = 0;
    while let Some(name) = reached.get(at) {
        let ways = machine
            .get(name)
            .into_iter()
            .flat_map(|phase| phase.then.iter().chain(&phase.on_error).chain(&phase.jumps));
        let new: Vec<&str> = ways
            .map(String::as_str)
            .filter(|to| !reached.contains(to))
            .collect();
        reached.extend(new);
        at += 1;
    }
    let all = machine
        .phases
        .iter()
        .map(|(name, _)| name)
        .chain(&machine.succeeded)
        .chain(&machine.failed);
    for name in all.filter(|name| !reached.contains(&name.as_str())) {
        list.push(format!(
            "phase {name:?} cannot be reached from {:?}",
            machine.initial
        ));
    }
}

fn is_label(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    name.len() <= 63
        && name.starts_with(edge)
        && name.ends_with(edge)
        && name.chars().all(|c| edge(c) || matches!(c, '-' | '_' | '.'))
}
