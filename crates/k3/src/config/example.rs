//! All keys with their meaning and their defaults: a file, and a table.

use clap::Arg;

use super::{keys::Key, settings::defaults, value};

/// How long a line of an example may be.
const WIDTH: usize = 110;

const HEAD: &str = "\
# All settings of k3 with their defaults: this file says what is in force without any file.
#
# A file is found by --config, by the variable CONFIG_PATH, as ./.config.yaml or as ./configs/config-example.yaml,
# in this order. Each key is also a flag and a variable (docs/configuration.md), and those go before the file.
# Paths are relative to the directory that k3 is started in. `k3 config show` prints what is in force, and who said so.
#
# Written by `k3 config example`.
";

/// Where one is in a file of settings.
#[derive(Default)]
pub(super) struct SectionCursor(Vec<&'static str>);

/// A file with all keys, their meaning and their defaults.
pub(crate) fn example(args: &[(&'static Key, Arg)]) -> String {
    let mut lines: Vec<String> = HEAD.lines().map(str::to_owned).collect();
    let mut cursor = SectionCursor::default();
    for (key, arg) in args {
        lines.push(String::new());
        let entry = cursor.enter(key, |section| lines.push(section));
        let indent = &entry[..entry.len() - entry.trim_start().len()];
        for line in wrapped(&meaning(arg), WIDTH - indent.len()) {
            lines.push(format!("{indent}# {line}"));
        }
        lines.push(format!("{entry}: {}", value::yaml(arg, &defaults(key, arg))));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The table of keys, flags and variables for documents.
#[cfg(test)]
pub(super) fn table(args: &[(&'static Key, Arg)]) -> String {
    let mut lines = vec![
        "| key | flag | variable | default |".to_owned(),
        "| --- | --- | --- | --- |".to_owned(),
    ];
    for (key, arg) in args {
        let variables: Vec<_> = key.variables().map(|name| format!("`{name}`")).collect();
        let default = match value::yaml(arg, &defaults(key, arg)).as_str() {
            "\"\"" | "[]" => String::new(),
            default => format!("`{default}`"),
        };
        lines.push(format!(
            "| `{}` | `{}` | {} | {default} |",
            key.name,
            value::flag(arg),
            variables.join(", "),
        ));
    }
    lines.join("\n")
}

/// What an argument is for, and what it may be.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values = arg.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    let names: Vec<_> = values.map(|value| value.get_name().to_owned()).collect();
    if names.is_empty() || value::is_switch(arg) {
        return help;
    }
    format!("{help}: {}", names.join(", "))
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is a line to begin with");
        if last.is_empty() {
            last.push_str(word);
        } else if last.len() + 1 + word.len() > width {
            lines.push(word.to_owned());
        } else {
            last.push(' ');
            last.push_str(word);
        }
    }
    lines
}

// --- SectionCursor ---

impl SectionCursor {
    /// Goes to a key: tells the lines of the sections that begin there, and gives the beginning of its own line.
    pub(super) fn enter(&mut self, key: &Key, mut begin: impl FnMut(String)) -> String {
        let (sections, name) = key.path();
        let sections: Vec<_> = sections
            .split('.')
            .filter(|section| !section.is_empty())
            .collect();
        let kept = self.0.iter().zip(&sections).take_while(|(at, to)| at == to);
        let kept = kept.count();
        self.0.truncate(kept);
        for section in &sections[kept..] {
            begin(format!("{}{section}:", "  ".repeat(self.0.len())));
            self.0.push(section);
        }
        format!("{}{name}", "  ".repeat(self.0.len()))
    }
}
