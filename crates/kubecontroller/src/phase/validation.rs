//! Validation of state machines.

use std::{collections::BTreeMap, error::Error, fmt};

use super::{
    CLEANUP,
    builder::{Phase, StateMachineBuilder},
    handler::{HandlerKind, PhaseHandler},
    state_machine::StateMachine,
    status::Phased,
};

/// All mistakes in the declaration of a state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateMachineValidationError {
    machine: String,
    messages: Vec<String>,
}

// --- StateMachineValidationError ---

impl StateMachineValidationError {
    /// The mistakes, one message each.
    pub fn messages(&self) -> &[String] {
        &self.messages
    }
}

impl fmt::Display for StateMachineValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "state machine {:?} is invalid: {}",
            self.machine,
            self.messages.join("; ")
        )
    }
}

impl Error for StateMachineValidationError {}

/// Collects all mistakes, so that one build attempt shows everything there is to fix.
pub(super) fn validation_errors<R: Phased>(builder: &StateMachineBuilder<R>) -> StateMachineValidationError {
    let machine = &builder.machine;
    let mut list = Vec::new();
    validate_names(builder, &mut list);
    if machine.phases.is_empty() {
        list.push("it has no phase with a handler".to_owned());
    } else if machine.get(&machine.initial).is_none() {
        list.push(format!(
            "the initial phase {:?} is not declared with a handler",
            machine.initial
        ));
    }
    for (name, phase) in &machine.phases {
        validate_phase(machine, name, phase, &mut list);
    }
    validate_error_phases(machine, &mut list);
    validate_reachability(machine, &mut list);
    if let Some(cleanup) = &machine.cleanup {
        validate_handler_tree(&format!("{CLEANUP:?}"), cleanup, &mut list);
    }
    StateMachineValidationError {
        machine: machine.name.clone(),
        messages: list,
    }
}

fn validate_names<R: Phased>(builder: &StateMachineBuilder<R>, list: &mut Vec<String>) {
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
                "terminal phase {name:?} must not have a handler or transitions"
            ));
        }
    }
    let working = machine.phases.iter().map(|(name, _)| name);
    for name in working.chain(ends) {
        if !is_label(name) {
            list.push(format!(
                "{name:?} is not a valid phase name: it must be a valid label value"
            ));
        }
        if name == CLEANUP {
            list.push(format!(
                "{CLEANUP:?} is reserved for the clean-up: choose another phase name"
            ));
        }
    }
}

fn validate_phase<R: Phased>(
    machine: &StateMachine<R>,
    name: &str,
    phase: &Phase<R>,
    list: &mut Vec<String>,
) {
    match &phase.handler {
        None => list.push(format!("phase {name:?} has no handler")),
        Some(handler) => validate_handler_tree(&format!("{name:?}"), handler, list),
    }
    let ways = [("then", &phase.then), ("on_error", &phase.on_error)];
    let ways = ways.into_iter().filter_map(|(way, to)| Some((way, to.as_ref()?)));
    for (way, to) in ways.chain(phase.jumps.iter().map(|to| ("jumps_to", to))) {
        if !machine.declares(to) {
            list.push(format!(
                "phase {name:?} leads to {to:?} ({way}), which is not declared"
            ));
        }
    }
    if phase.then.is_none() && phase.jumps.is_empty() {
        list.push(format!("phase {name:?} has no next phase: set then or jumps_to"));
    }
    if phase.on_error.as_deref() == Some(name) {
        list.push(format!("phase {name:?} is its own error phase"));
    }
    if phase.tries == Some(0) {
        list.push(format!("phase {name:?} allows zero tries"));
    }
    if phase.timeout.is_some_and(|timeout| timeout.is_zero()) {
        list.push(format!("phase {name:?} has a timeout of zero"));
    }
    let limits = [
        ("a timeout", phase.timeout.is_some()),
        ("limited tries", phase.tries.is_some()),
        ("approval", phase.approval),
    ];
    for (limit, _) in limits
        .into_iter()
        .filter(|(_, set)| *set && phase.on_error.is_none())
    {
        list.push(format!(
            "phase {name:?} has {limit} but no error phase: set on_error"
        ));
    }
}

fn validate_handler_tree<R>(path: &str, handler: &PhaseHandler<R>, list: &mut Vec<String>) {
    if matches!(&handler.kind, HandlerKind::Serial(children) | HandlerKind::Parallel(children) if children.is_empty())
    {
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
        validate_handler_tree(&format!("{path}/{:?}", child.name), child, list);
    }
}

fn validate_error_phases<R>(machine: &StateMachine<R>, list: &mut Vec<String>) {
    let mut origins: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, phase) in &machine.phases {
        if let Some(to) = &phase.on_error {
            origins.entry(to).or_default().push(name);
        }
    }
    for (to, from) in origins.into_iter().filter(|(_, from)| from.len() > 1) {
        list.push(format!(
            "phases {from:?} share the error phase {to:?}: a reset would not know where to return"
        ));
    }
}

fn validate_reachability<R: Phased>(machine: &StateMachine<R>, list: &mut Vec<String>) {
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
