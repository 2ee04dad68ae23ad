//! Diagrams of state machines.

use std::fmt::Write;

use super::{state_machine::StateMachine, status::Phased};

/// The kind of a transition between phases.
enum Transition {
    Then,
    Error,
    Jump,
}

// --- Machine ---

impl<R: Phased> StateMachine<R> {
    /// The transitions as a Mermaid state diagram, which GitHub and many Markdown viewers render.
    pub fn to_mermaid(&self) -> String {
        let mut out = String::from("stateDiagram-v2\n");
        for name in self.all().filter(|name| id(name) != *name) {
            line(&mut out, format_args!("state \"{name}\" as {}", id(name)));
        }
        line(&mut out, format_args!("[*] --> {}", id(&self.initial)));
        for (from, to, way) in self.transitions() {
            let label = match way {
                Transition::Then => "",
                Transition::Error => ": error",
                Transition::Jump => ": jump",
            };
            line(&mut out, format_args!("{} --> {}{label}", id(from), id(to)));
        }
        for end in self.succeeded.iter().chain(&self.failed) {
            line(&mut out, format_args!("{} --> [*]", id(end)));
        }
        out
    }

    /// The transitions as a Graphviz `dot` graph.
    pub fn to_dot(&self) -> String {
        let mut out = format!("digraph {:?} {{\n", self.name);
        line(&mut out, format_args!("rankdir=LR;"));
        for name in self.all() {
            let shape = match (
                self.is_terminal_phase(name),
                self.failed.iter().any(|failed| failed == name),
            ) {
                (false, _) if name == self.initial => "box, style=bold",
                (false, _) => "box",
                (true, false) => "doublecircle",
                (true, true) => "doublecircle, color=red",
            };
            line(&mut out, format_args!("{name:?} [shape={shape}];"));
        }
        for (from, to, way) in self.transitions() {
            let style = match way {
                Transition::Then => "",
                Transition::Error => " [label=error, color=red]",
                Transition::Jump => " [label=jump, style=dashed]",
            };
            line(&mut out, format_args!("{from:?} -> {to:?}{style};"));
        }
        out + "}\n"
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        let working = self.phases.iter().map(|(name, _)| name);
        working
            .chain(&self.succeeded)
            .chain(&self.failed)
            .map(String::as_str)
    }

    fn transitions(&self) -> impl Iterator<Item = (&str, &str, Transition)> {
        self.phases.iter().flat_map(|(name, phase)| {
            let then = phase.then.iter().map(|to| (to, Transition::Then));
            let jumps = phase.jumps.iter().map(|to| (to, Transition::Jump));
            let error = phase.on_error.iter().map(|to| (to, Transition::Error));
            then.chain(jumps)
                .chain(error)
                .map(|(to, way)| (name.as_str(), to.as_str(), way))
        })
    }
}

/// A name as a Mermaid identifier.
fn id(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "    {text}").expect("writing to a String cannot fail");
}
