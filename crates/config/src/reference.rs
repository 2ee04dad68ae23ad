//! The generated reference: the example file, the table for documents, and the effective configuration in the form of a file.

use std::sync::Arc;

use clap::Arg;
use serde_json::{Value, json};

use crate::{ConfigKey, EffectiveConfig, KeyTable};

/// Maximum length of a line.
const WIDTH: usize = 110;
/// A secret.
const REDACTED: &str = "***";

/// The current section during output.
#[derive(Default)]
struct SectionCursor(Vec<String>);

/// A configuration file with all keys, their descriptions and defaults, below a head of comments.
pub fn example(table: &KeyTable, head: &str) -> String {
    let mut lines: Vec<String> = head.lines().map(str::to_owned).collect();
    let mut cursor = SectionCursor::default();
    for key in listed(table) {
        lines.push(String::new());
        let (name, value) = match section(key) {
            Some(section) => (section, "{}".to_owned()),
            None => (key.name(), key.yaml(&key.defaults())),
        };
        let entry = cursor.enter(name, |section| lines.push(section));
        let indent = &entry[..entry.len() - entry.trim_start().len()];
        for line in wrapped(&meaning(key), WIDTH - indent.len()) {
            lines.push(format!("{indent}# {line}"));
        }
        lines.push(format!("{entry}: {value}"));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The table of keys, flags and variables for documents, in Markdown.
pub fn markdown_table(table: &KeyTable) -> String {
    let mut lines = vec![
        "| key | flag | variable | default |".to_owned(),
        "| --- | --- | --- | --- |".to_owned(),
    ];
    for key in listed(table) {
        let quoted = |name: &str| format!("`{name}`");
        let names: Vec<_> = [key.name()]
            .into_iter()
            .chain(key.aliases.iter().copied())
            .map(quoted)
            .collect();
        let flags = key.arg().get_visible_aliases().unwrap_or_default();
        let flags: Vec<_> = [key.flag()]
            .into_iter()
            .chain(flags.into_iter().map(|alias| format!("--{alias}")))
            .map(|flag| quoted(&flag))
            .collect();
        let variables: Vec<_> = key.variables().iter().map(|name| quoted(name)).collect();
        let default = match key.yaml(&key.defaults()).as_str() {
            "\"\"" | "[]" => String::new(),
            default => format!("`{default}`"),
        };
        lines.push(format!(
            "| {} | {} | {} | {default} |",
            names.join(", "),
            flags.join(", "),
            variables.join(", "),
        ));
    }
    lines.join("\n")
}

fn listed(table: &KeyTable) -> impl Iterator<Item = &Arc<ConfigKey>> {
    table.keys().iter().filter(|key| key.is_listed())
}

/// The section that a key with a wildcard is.
fn section(key: &ConfigKey) -> Option<&str> {
    key.prefix().map(|prefix| prefix.trim_end_matches('.'))
}

/// Help text and possible values of a key.
fn meaning(key: &ConfigKey) -> String {
    let arg = key.arg();
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    if let Some(section) = section(key) {
        let wildcard = &key.name()[section.len() + 1..];
        return format!("{help}; a line each: `{wildcard}: {}`", value_name(arg));
    }
    let values = arg.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    let names: Vec<_> = values.map(|value| value.get_name().to_owned()).collect();
    if names.is_empty() || key.is_switch() {
        return help;
    }
    format!("{help}: {}", names.join(", "))
}

fn value_name(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.first().map_or("VALUE", |name| name.as_str()).to_owned()
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

// --- EffectiveConfig ---

impl EffectiveConfig {
    /// The effective configuration as YAML, with the source of each value.
    pub fn yaml(&self, table: &KeyTable) -> String {
        let mut cursor = SectionCursor::default();
        let mut lines = Vec::new();
        for (key, name, values, source) in self.rows(table) {
            let shown = if key.is_secret() && !values.concat().is_empty() {
                format!("'{REDACTED}'")
            } else if section(key).is_some() && values.is_empty() {
                "{}".to_owned()
            } else {
                key.yaml(&values)
            };
            let entry = cursor.enter(&name, |section| lines.push((section, None)));
            lines.push((format!("{entry}: {shown}"), Some(source)));
        }
        let widths = lines.iter().map(|(line, _)| line.len());
        let width = widths.filter(|width| *width <= 60).max().unwrap_or(0);
        let mut text = vec![format!("# file: {}", self.file.as_deref().unwrap_or("none"))];
        text.extend(lines.into_iter().map(|(line, source)| match source {
            Some(source) => format!("{line:width$}  # {source}"),
            None => line,
        }));
        text.join("\n")
    }

    /// The same as JSON.
    pub fn json(&self, table: &KeyTable) -> Value {
        let settings: Vec<_> = self
            .rows(table)
            .into_iter()
            .map(|(key, name, values, source)| {
                let value = if key.is_secret() && !values.concat().is_empty() {
                    json!(REDACTED)
                } else {
                    key.json(&values)
                };
                json!({"key": name, "value": value, "origin": source})
            })
            .collect();
        json!({"file": self.file, "settings": settings})
    }

    /// Names, values and sources. A key with a wildcard has a row for each name, or one for its empty section.
    fn rows<'t>(&self, table: &'t KeyTable) -> Vec<(&'t ConfigKey, String, Vec<String>, String)> {
        let mut rows = Vec::new();
        for key in listed(table) {
            let mut of_key = self
                .configured
                .iter()
                .filter(|value| value.key == *key)
                .peekable();
            match section(key) {
                Some(_) if of_key.peek().is_some() => rows.extend(of_key.map(|value| {
                    let source = value.source.to_string();
                    (&**key, value.name.clone(), value.values.clone(), source)
                })),
                wildcard => {
                    let (values, source) = self.effective_value(key);
                    rows.push((&**key, wildcard.unwrap_or(key.name()).to_owned(), values, source));
                }
            }
        }
        rows
    }
}

// --- SectionCursor ---

impl SectionCursor {
    /// Moves to a key: passes the lines of new sections to `begin`, and returns the start of the key's line.
    fn enter(&mut self, name: &str, mut begin: impl FnMut(String)) -> String {
        let (sections, name) = name.rsplit_once('.').unwrap_or(("", name));
        let sections = sections.split('.').filter(|section| !section.is_empty());
        let sections: Vec<_> = sections.map(str::to_owned).collect();
        let kept = self.0.iter().zip(&sections).take_while(|(at, to)| at == to);
        let kept = kept.count();
        self.0.truncate(kept);
        for section in &sections[kept..] {
            begin(format!("{}{section}:", "  ".repeat(self.0.len())));
            self.0.push(section.clone());
        }
        format!("{}{name}", "  ".repeat(self.0.len()))
    }
}
