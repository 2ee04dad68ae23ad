//! Text tables: columns as wide as their widest cell, narrowed to fit the terminal.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use clap::Args;

use crate::stdout::{StdoutWriter, TextColour};

/// Spaces between two columns.
const GAP: usize = 3;
/// Minimum width of a column with its gap, except for the last column.
const MIN_WIDTH: usize = 6;
/// Minimum width of a column that is narrowed to fit the terminal.
const MIN_NARROWED_WIDTH: usize = 12;

/// A header and rows.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    /// Each row has as many cells as the header.
    pub(crate) rows: Vec<Vec<String>>,
}

/// Whether the names of the columns are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Shown,
    Hidden,
}

/// The flag for tables without a header.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct HeaderFlags {
    /// Do not print the header line
    #[arg(long)]
    no_headers: bool,
}

/// The widths of columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnLayout {
    widths: Vec<usize>,
    /// Columns that are narrower than their widest cell.
    narrowed: Vec<bool>,
    /// Columns that show a status, which is coloured.
    status_columns: Vec<bool>,
}

// --- HeaderFlags ---

impl HeaderFlags {
    pub(crate) fn header(self) -> Header {
        if self.no_headers {
            Header::Hidden
        } else {
            Header::Shown
        }
    }
}

// --- Table ---

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self {
            header: header.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Prints the table.
    pub(crate) fn print(&self, screen: &mut StdoutWriter, header: Header) -> io::Result<()> {
        let layout = self.layout(screen.width, header);
        layout.print(screen, &self.header, &self.rows, header)
    }

    /// Computes the widths of the columns for lines of at most `max_width` characters.
    pub(crate) fn layout(&self, max_width: Option<usize>, header: Header) -> ColumnLayout {
        let mut widths: Vec<usize> = self
            .header
            .iter()
            .map(|name| match header {
                Header::Shown => length(name),
                Header::Hidden => 0,
            })
            .collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(length(cell));
            }
        }
        let natural = widths.clone();
        if let Some(max_width) = max_width {
            shrink(&mut widths, &self.header, max_width);
        }
        let status_columns = self
            .header
            .iter()
            .map(|name| matches!(name.as_str(), "STATUS" | "TYPE" | "READY"));
        ColumnLayout {
            status_columns: status_columns.collect(),
            narrowed: widths
                .iter()
                .zip(&natural)
                .map(|(width, natural)| width < natural)
                .collect(),
            widths,
        }
    }
}

// --- ColumnLayout ---

impl ColumnLayout {
    /// Prints rows with widths that were computed earlier. Longer cells of later rows shift the rest of their line.
    pub(crate) fn print(
        &self,
        screen: &mut StdoutWriter,
        names: &[String],
        rows: &[Vec<String>],
        header: Header,
    ) -> io::Result<()> {
        let mut line = String::new();
        if header == Header::Shown {
            self.line(&mut line, names, |_, _| {
                screen.has_colours.then_some(TextColour::Bold)
            });
            screen.write_all(line.as_bytes())?;
        }
        for row in rows {
            line.clear();
            self.line(&mut line, row, |column, cell| {
                let is_status = screen.has_colours && self.status_columns.get(column) == Some(&true);
                is_status.then(|| TextColour::of_status(cell)).flatten()
            });
            screen.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    fn line(&self, line: &mut String, cells: &[String], colour: impl Fn(usize, &str) -> Option<TextColour>) {
        let last = cells.len().saturating_sub(1);
        for (column, cell) in cells.iter().enumerate() {
            let width = self.widths.get(column).copied().unwrap_or(0);
            let is_cut = self.narrowed.get(column) == Some(&true) && length(cell) > width;
            let shown = if is_cut {
                cut(cell, width)
            } else {
                Cow::Borrowed(cell.as_str())
            };
            let colour = colour(column, &shown);
            line.push_str(colour.map_or("", TextColour::begin));
            line.push_str(&shown);
            line.push_str(if colour.is_some() { TextColour::END } else { "" });
            if column < last {
                let pad = (width + GAP).max(MIN_WIDTH).saturating_sub(length(&shown)).max(1);
                line.extend(std::iter::repeat_n(' ', pad));
            }
        }
        line.push('\n');
    }
}

/// Narrows the widest columns until a line fits. Columns with names keep their width.
fn shrink(widths: &mut [usize], header: &[String], max_width: usize) {
    let is_name = |column: usize| column == 0 || matches!(header[column].as_str(), "NAME" | "NAMESPACE");
    loop {
        let last = widths.len().saturating_sub(1);
        let total: usize = widths
            .iter()
            .enumerate()
            .map(|(column, width)| {
                if column < last {
                    (width + GAP).max(MIN_WIDTH)
                } else {
                    *width
                }
            })
            .sum();
        let Some(excess) = total.checked_sub(max_width).filter(|excess| *excess > 0) else {
            return;
        };
        let mut order: Vec<usize> = (0..widths.len()).filter(|&column| !is_name(column)).collect();
        order.sort_by_key(|&column| std::cmp::Reverse(widths[column]));
        let Some(&widest) = order
            .first()
            .filter(|&&column| widths[column] > MIN_NARROWED_WIDTH)
        else {
            return;
        };
        // Narrow to the next widest column only, so that no single column loses all its width.
        let next = order.get(1).map_or(MIN_NARROWED_WIDTH, |&column| widths[column]);
        let floor = next.min(widths[widest] - 1).max(MIN_NARROWED_WIDTH);
        widths[widest] = (widths[widest].saturating_sub(excess)).max(floor);
    }
}

/// Truncates a cell to `width` and marks the cut with three dots.
fn cut(cell: &str, width: usize) -> Cow<'_, str> {
    let start: String = cell.chars().take(width.saturating_sub(3)).collect();
    Cow::Owned(format!("{start}..."))
}

fn length(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(table: &Table, max_width: Option<usize>) -> String {
        let layout = table.layout(max_width, Header::Shown);
        let mut text = String::new();
        layout.line(&mut text, &table.header, |_, _| None);
        for row in &table.rows {
            layout.line(&mut text, row, |_, _| None);
        }
        text
    }

    fn table(header: &[&str], rows: &[&[&str]]) -> Table {
        let mut table = Table::new(header);
        table.rows = rows
            .iter()
            .map(|row| row.iter().map(|&cell| cell.to_owned()).collect())
            .collect();
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let table = table(
            &["NAME", "X", "AGE"],
            &[&["web-1", "1", "5d"], &["b", "22", "12h"]],
        );
        assert_eq!(
            shown(&table, None),
            "NAME    X     AGE\nweb-1   1     5d\nb       22    12h\n"
        );
    }

    #[test]
    fn a_narrow_terminal_cuts_the_widest_columns_but_no_names() {
        let long = "a long message that does not fit the line";
        let table = table(&["NAME", "MESSAGE"], &[&["a-name-that-is-long", long]]);
        let text = shown(&table, Some(40));
        assert!(text.lines().all(|line| line.len() <= 40), "{text}");
        assert!(
            text.contains("a-name-that-is-long   a long message ..."),
            "{text}"
        );
        assert!(shown(&table, None).contains(long));
    }
}
