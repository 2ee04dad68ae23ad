//! Indented text with labels, aligned values and tables.

use serde_json::Value;

/// The description of an object.
#[derive(Debug, Default)]
pub(crate) struct DescriptionSheet {
    entries: Vec<SheetEntry>,
}

#[derive(Debug)]
enum SheetEntry {
    /// A label with values, one per line.
    Line(String, Vec<String>),
    /// A label with an indented description.
    Group(String, DescriptionSheet),
    /// A table; the first two rows are the headers and their underline.
    Rows(Vec<Vec<String>>),
}

// --- DescriptionSheet ---

impl DescriptionSheet {
    /// Adds a label with a value.
    pub(crate) fn line(&mut self, label: &str, value: impl Into<String>) {
        self.lines(label, vec![value.into()]);
    }

    /// Adds a label with a value unless the value is null.
    pub(crate) fn line_if_set(&mut self, label: &str, value: &Value) {
        if !value.is_null() {
            self.line(label, shown(value));
        }
    }

    /// Adds a label with several values.
    pub(crate) fn lines(&mut self, label: &str, values: Vec<String>) {
        self.entries.push(SheetEntry::Line(label.to_owned(), values));
    }

    /// Adds the entries of a map, or `<none>`.
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

    /// Adds an indented group; an empty group becomes `<none>`.
    pub(crate) fn group(&mut self, label: &str, fill: impl FnOnce(&mut DescriptionSheet)) {
        let mut inner = DescriptionSheet::default();
        fill(&mut inner);
        if inner.entries.is_empty() {
            self.line(label, "<none>");
        } else {
            self.entries.push(SheetEntry::Group(label.to_owned(), inner));
        }
    }

    /// Adds a table.
    pub(crate) fn rows(&mut self, header: &[&str], rows: Vec<Vec<String>>) {
        let title = |name: &&str| (*name).to_owned();
        let rule = |name: &&str| "-".repeat(name.len());
        let mut all = vec![
            header.iter().map(title).collect(),
            header.iter().map(rule).collect(),
        ];
        all.extend(rows);
        self.entries.push(SheetEntry::Rows(all));
    }

    /// Formats the description.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, 0);
        text
    }

    fn write(&self, text: &mut String, depth: usize) {
        let width = self
            .entries
            .iter()
            .map(SheetEntry::label_width)
            .max()
            .unwrap_or_default()
            + 3;
        let indent = " ".repeat(depth);
        for entry in &self.entries {
            match entry {
                SheetEntry::Line(label, values) => {
                    for (index, value) in values.iter().enumerate() {
                        let label = if index == 0 {
                            format!("{label}:")
                        } else {
                            String::new()
                        };
                        let line = format!("{indent}{label:<width$}{value}");
                        text.push_str(line.trim_end());
                        text.push('\n');
                    }
                }
                SheetEntry::Group(label, inner) => {
                    text.extend([&indent, label, ":\n"]);
                    inner.write(text, depth + 2);
                }
                SheetEntry::Rows(rows) => write_rows(text, rows, &indent),
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

// --- SheetEntry ---

impl SheetEntry {
    fn label_width(&self) -> usize {
        match self {
            Self::Line(label, _) => label.chars().count(),
            Self::Group(..) | Self::Rows(_) => 0,
        }
    }
}

/// Formats a value; strings have no quotes.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<none>".to_owned(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Returns a string, or `<none>` when it is absent or empty.
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
    fn aligns_the_values_of_a_group() {
        let mut sheet = DescriptionSheet::default();
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
