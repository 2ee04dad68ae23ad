//! Lines of labels and values, of which those of one group stand in columns.

use serde_json::Value;

/// What is shown.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    entries: Vec<Entry>,
}

#[derive(Debug)]
enum Entry {
    /// A label with its values, one below the other.
    Line(String, Vec<String>),
    /// A label with a sheet of its own, further in.
    Group(String, Sheet),
    /// Rows in columns, the first ones being headers.
    Rows(Vec<Vec<String>>),
}

// --- Sheet ---

impl Sheet {
    /// Adds a label and a value.
    pub(crate) fn line(&mut self, label: &str, value: impl Into<String>) {
        self.lines(label, vec![value.into()]);
    }

    /// Adds a label and a value, if there is one.
    pub(crate) fn some(&mut self, label: &str, value: &Value) {
        if !value.is_null() {
            self.line(label, shown(value));
        }
    }

    /// Adds a label and several values.
    pub(crate) fn lines(&mut self, label: &str, values: Vec<String>) {
        self.entries.push(Entry::Line(label.to_owned(), values));
    }

    /// Adds the pairs of a map, or `<none>`.
    pub(crate) fn pairs(&mut self, label: &str, map: &Value, between: &str) {
        let pairs: Vec<String> = map
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| format!("{name}{between}{}", shown(value)))
            .collect();
        let none = vec!["<none>".to_owned()];
        self.lines(label, if pairs.is_empty() { none } else { pairs });
    }

    /// Adds a group; an empty one is `<none>`.
    pub(crate) fn group(&mut self, label: &str, fill: impl FnOnce(&mut Sheet)) {
        let mut inner = Sheet::default();
        fill(&mut inner);
        if inner.entries.is_empty() {
            self.line(label, "<none>");
        } else {
            self.entries.push(Entry::Group(label.to_owned(), inner));
        }
    }

    /// Adds columns under their headers.
    pub(crate) fn rows(&mut self, header: &[&str], rows: Vec<Vec<String>>) {
        let title = |name: &&str| (*name).to_owned();
        let rule = |name: &&str| "-".repeat(name.len());
        let mut all = vec![
            header.iter().map(title).collect(),
            header.iter().map(rule).collect(),
        ];
        all.extend(rows);
        self.entries.push(Entry::Rows(all));
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, 0);
        text
    }

    fn write(&self, text: &mut String, depth: usize) {
        let width = self
            .entries
            .iter()
            .map(Entry::label_width)
            .max()
            .unwrap_or_default()
            + 3;
        let indent = " ".repeat(depth);
        for entry in &self.entries {
            match entry {
                Entry::Line(label, values) => {
                    for (at, value) in values.iter().enumerate() {
                        let label = if at == 0 {
                            format!("{label}:")
                        } else {
                            String::new()
                        };
                        let line = format!("{indent}{label:<width$}{value}");
                        text.push_str(line.trim_end());
                        text.push('\n');
                    }
                }
                Entry::Group(label, inner) => {
                    text.extend([&indent, label, ":\n"]);
                    inner.write(text, depth + 2);
                }
                Entry::Rows(rows) => write_rows(text, rows, &indent),
            }
        }
    }
}

fn write_rows(text: &mut String, rows: &[Vec<String>], indent: &str) {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default() + 2
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:<width$}"));
        let line = cells.fold(indent.to_owned(), |line, cell| line + &cell);
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

// --- Entry ---

impl Entry {
    fn label_width(&self) -> usize {
        match self {
            Self::Line(label, _) => label.chars().count(),
            Self::Group(..) | Self::Rows(_) => 0,
        }
    }
}

/// A value without the quotes of texts.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<none>".to_owned(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// A text, or `<none>`.
pub(super) fn text(value: &Value) -> String {
    match value.as_str() {
        Some("") | None => "<none>".to_owned(),
        Some(text) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_a_group_stand_in_a_column() {
        let mut sheet = Sheet::default();
        sheet.line("Name", "web");
        sheet.pairs("Labels", &json!({"a": "b", "c": "d"}), "=");
        sheet.pairs("Annotations", &json!({}), ": ");
        sheet.group("Containers", |inner| {
            inner.group("web", |inner| inner.line("Image", "nginx"));
        });
        sheet.group("Volumes", |_| {});
        sheet.group("Conditions", |inner| {
            inner.rows(&["Type", "Status"], vec![vec!["Ready".into(), "True".into()]]);
        });
        assert_eq!(
            sheet.text(),
            "\
Name:         web
Labels:       a=b
              c=d
Annotations:  <none>
Containers:
  web:
    Image:  nginx
Volumes:      <none>
Conditions:
  Type   Status
  ----   ------
  Ready  True
"
        );
    }
}
