//! Pictures of machines.

use std::fmt::Write;

use super::{machine::Machine, status::Phased};

/// How one phase leads to another.
enum Way {
    NextPass,
    Error,
    Jump,
}

// --- Machine ---

impl<R: Phased> Machine<R> {
    /// The machine as a Mermaid state diagram, which Markdown on many sites shows as a picture.
    pub fn to_mermaid(&self) -> String {
        let mut out = String::from("stateDiagram-v2\n");
        for name in self.all().filter(|name| id(name) != *name) {
            line(&mut out, format_args!("state \"{name}\" as {}", id(name)));
        }
        line(&mut out, format_args!("[*] --> {}", id(&self.initial)));
        for (from, to, way) in self.ways() {
            let label = match way {
                Way::NextPass => "",
                Way::Error => ": error",
                Way::Jump => ": jump",
            };
            line(&mut out, format_args!("{} --> {}{label}", id(from), id(to)));
        }
        for end in self.succeeded.iter().chain(&self.failed) {
            line(&mut out, format_args!("{} --> [*]", id(end)));
        }
        out
    }

    /// The machine in the language of Graphviz.
    pub fn to_dot(&self) -> String {
        let mut out = format!("digraph {:?} {{\n", self.name);
        line(&mut out, format_args!("rankdir=LR;"));
        for name in self.all() {
            let shape = match (self.ends(name), self.failed.iter().any(|failed| failed == name)) {
                (false, _) if name == self.initial => "box, style=bold",
                (false, _) => "box",
                (true, false) => "doublecircle",
                (true, true) => "doublecircle, color=red",
            };
            line(&mut out, format_args!("{name:?} [shape={shape}];"));
        }
        for (from, to, way) in self.ways() {
            let style = match way {
                Way::NextPass => "",
                Way::Error => " [label=error, color=red]",
                Way::Jump => " [label=jump, style=dashed]",
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

    fn ways(&self) -> impl Iterator<Item = (&str, &str, Way)> {
        self.phases.iter().flat_map(|(name, phase)| {
            let then = phase.then.iter().map(|to| (to, Way::NextPass));
            let jumps = phase.jumps.iter().map(|to| (to, Way::Jump));
            let error = phase.on_error.iter().map(|to| (to, Way::Error));
            then.chain(jumps)
                .chain(error)
                .map(|(to, way)| (name.as_str(), to.as_str(), way))
        })
    }
}

/// What Mermaid takes for a name.
fn id(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "    {text}").expect("a text takes what is written to it");
}
