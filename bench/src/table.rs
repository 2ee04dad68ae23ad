//! Tables as text.

/// Rows of cells under a headline; the first column is a name, the others are numbers.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

// --- Table ---

impl Table {
    pub(crate) fn new<const N: usize>(head: [&str; N]) -> Self {
        Self {
            rows: vec![head.map(str::to_owned).into()],
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// The table, with columns as wide as they need to be.
    pub(crate) fn print(&self, title: &str) {
        if self.rows.len() == 1 {
            return; // nothing of this was measured
        }
        println!("\n{title}");
        let columns = self.rows[0].len();
        let width = |column: usize| self.rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns).map(width).collect();
        for row in &self.rows {
            print!("  {:<width$}", row[0], width = widths[0]);
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                print!("  {cell:>width$}");
            }
            println!();
        }
    }
}

/// Bytes as mebibytes.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

/// A number with its thousands set apart.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let of = |number| grouped(number);
        assert_eq!(
            [of(0.4), of(999.0), of(1000.0), of(1_234_567.8)],
            ["0", "999", "1,000", "1,234,568"]
        );
    }
}
