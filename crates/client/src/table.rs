//! Tables of text: columns that are as wide as they must be, and no wider than the terminal has room for.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use crate::screen::{Colour, Screen};

/// Between two columns.
const GAP: usize = 3;
/// What no column but the last is narrower than, with its gap.
const LEAST: usize = 6;
/// What a column keeps when the terminal is too narrow.
const KEPT: usize = 12;

/// A table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    /// Each as long as the header.
    pub(crate) rows: Vec<Vec<String>>,
}

/// How wide columns are, once that is settled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    widths: Vec<usize>,
    /// Columns that are narrower than they would be with more room.
    narrowed: Vec<bool>,
    /// Columns of which the cells say how something is.
    telling: Vec<bool>,
}

// --- Table ---

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self {
            header: header.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Prints all of it, the header unless it is unwanted.
    pub(crate) fn print(&self, screen: &mut Screen, has_header: bool) -> io::Result<()> {
        let layout = self.layout(screen.width, has_header);
        layout.print(screen, &self.header, &self.rows, has_header)
    }

    /// How wide the columns are where there is room for `room` letters in a line.
    pub(crate) fn layout(&self, room: Option<usize>, has_header: bool) -> Layout {
        let mut widths: Vec<usize> = self
            .header
            .iter()
            .map(|name| if has_header { length(name) } else { 0 })
            .collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(length(cell));
            }
        }
        let wished = widths.clone();
        if let Some(room) = room {
            shrink(&mut widths, &self.header, room);
        }
        let telling = self
            .header
            .iter()
            .map(|name| matches!(name.as_str(), "STATUS" | "TYPE" | "READY"));
        Layout {
            telling: telling.collect(),
            narrowed: widths
                .iter()
                .zip(&wished)
                .map(|(width, wished)| width < wished)
                .collect(),
            widths,
        }
    }
}

// --- Layout ---

impl Layout {
    /// Prints rows under the widths that were settled; what has grown since pushes the rest of its line.
    pub(crate) fn print(
        &self,
        screen: &mut Screen,
        header: &[String],
        rows: &[Vec<String>],
        has_header: bool,
    ) -> io::Result<()> {
        let mut line = String::new();
        if has_header {
            self.line(&mut line, header, |_, _| {
                screen.has_colours.then_some(Colour::Bold)
            });
            screen.write_all(line.as_bytes())?;
        }
        for row in rows {
            line.clear();
            self.line(&mut line, row, |column, cell| {
                let is_telling = screen.has_colours && self.telling.get(column) == Some(&true);
                is_telling.then(|| Colour::of_status(cell)).flatten()
            });
            screen.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    fn line(&self, line: &mut String, cells: &[String], colour: impl Fn(usize, &str) -> Option<Colour>) {
        let last = cells.len().saturating_sub(1);
        for (column, cell) in cells.iter().enumerate() {
            let width = self.widths.get(column).copied().unwrap_or_default();
            let is_cut = self.narrowed.get(column) == Some(&true) && length(cell) > width;
            let shown = if is_cut {
                cut(cell, width)
            } else {
                Cow::Borrowed(cell.as_str())
            };
            let colour = colour(column, &shown);
            line.push_str(colour.map_or("", Colour::begin));
            line.push_str(&shown);
            line.push_str(if colour.is_some() { Colour::END } else { "" });
            if column < last {
                let pad = (width + GAP).max(LEAST).saturating_sub(length(&shown)).max(1);
                line.extend(std::iter::repeat_n(' ', pad));
            }
        }
        line.push('\n');
    }
}

/// Takes from the widest columns until a line fits; what names things stays whole.
fn shrink(widths: &mut [usize], header: &[String], room: usize) {
    let is_name = |column: usize| column == 0 || matches!(header[column].as_str(), "NAME" | "NAMESPACE");
    loop {
        let last = widths.len().saturating_sub(1);
        let total: usize = widths
            .iter()
            .enumerate()
            .map(|(column, width)| {
                if column < last {
                    (width + GAP).max(LEAST)
                } else {
                    *width
                }
            })
            .sum();
        let Some(excess) = total.checked_sub(room).filter(|excess| *excess > 0) else {
            return;
        };
        let mut order: Vec<usize> = (0..widths.len()).filter(|&column| !is_name(column)).collect();
        order.sort_by_key(|&column| std::cmp::Reverse(widths[column]));
        let Some(&widest) = order.first().filter(|&&column| widths[column] > KEPT) else {
            return;
        };
        // Down to the next widest, so that no column pays for all.
        let next = order.get(1).map_or(KEPT, |&column| widths[column]);
        let floor = next.min(widths[widest] - 1).max(KEPT);
        widths[widest] = (widths[widest].saturating_sub(excess)).max(floor);
    }
}

/// The beginning of a cell, with three points in place of the rest.
fn cut(cell: &str, width: usize) -> Cow<'_, str> {
    let kept: String = cell.chars().take(width.saturating_sub(3)).collect();
    Cow::Owned(format!("{kept}..."))
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

    fn shown(table: &Table, room: Option<usize>) -> String {
        let layout = table.layout(room, true);
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
        let long = "a long message that nobody has room for";
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
