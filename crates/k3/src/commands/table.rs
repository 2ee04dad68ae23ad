//! Aligned text tables.

/// Formats rows with aligned columns.
pub(super) fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    });
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligns_columns() {
        let rows = [["ID", "USER", "GROUPS", "E"], ["a", "alice", "", "x"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "ID   USER    GROUPS   E\na    alice            x\n");
    }
}
