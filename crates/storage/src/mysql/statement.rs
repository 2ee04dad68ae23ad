//! Statements over many rows, in few shapes.
//!
//! A statement with another number of rows is another statement, which the server must prepare and
//! keep. So lists are padded, and inserts split, to powers of two.

use std::ops::Range;

/// The largest number of rows in one statement.
pub(super) const MAX_ROWS: usize = 128;

/// The bytes of one statement at most, where the server would take more: enough to make the answer's
/// way back cheap, little enough that a slow line shows progress.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// What a row takes in a packet besides its name and value, and a packet besides its rows.
const ROW_OVERHEAD: usize = 64;
const PACKET_OVERHEAD: usize = 4 * 1024;

/// `?, ?, ?`: so many arguments.
pub(super) fn arguments(count: usize) -> String {
    vec!["?"; count].join(", ")
}

/// `(?, ?), (?, ?)`: so many rows of so many columns.
pub(super) fn tuples(rows: usize, columns: usize) -> String {
    vec![format!("({})", arguments(columns)); rows].join(", ")
}

/// The items, the last of them repeated until their number is a power of two.
pub(super) fn padded<T>(items: &[T]) -> impl ExactSizeIterator<Item = &T> {
    let count = if items.is_empty() {
        0
    } else {
        items.len().next_power_of_two()
    };
    (0..count).map(|i| &items[i.min(items.len() - 1)])
}

/// What a row with this name and value takes in a packet.
pub(super) fn row_bytes(name: &str, value: &[u8]) -> usize {
    name.len() + value.len() + ROW_OVERHEAD
}

/// Whether a row of this size can be sent at all.
pub(super) fn fits(row_bytes: usize, max_packet: usize) -> bool {
    row_bytes + PACKET_OVERHEAD <= max_packet
}

/// Splits rows of these sizes into statements: powers of two, each below the server's packet limit. A
/// row that does not fit even alone stands alone, for the server to refuse.
pub(super) fn pieces(sizes: &[usize], max_packet: usize) -> Vec<Range<usize>> {
    let budget = max_packet.saturating_sub(PACKET_OVERHEAD).min(MAX_BYTES);
    let mut pieces = Vec::new();
    let mut start = 0;
    while start < sizes.len() {
        let mut bytes = 0;
        let fitting = sizes[start..]
            .iter()
            .take(MAX_ROWS)
            .take_while(|&&size| {
                bytes += size;
                bytes <= budget
            })
            .count();
        let rows = 1 << fitting.max(1).ilog2();
        pieces.push(start..start + rows);
        start += rows;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_padded_with_their_last_item() {
        assert_eq!(padded(&[1, 2, 3]).collect::<Vec<_>>(), [&1, &2, &3, &3]);
        assert_eq!(padded::<u8>(&[]).len(), 0);
        assert_eq!(tuples(2, 3), "(?, ?, ?), (?, ?, ?)");
    }

    #[test]
    fn pieces_cover_all_rows_in_order_and_stay_below_the_packet_limit() {
        let max_packet = 1024 * 1024;
        for count in [1, 2, 3, 100, 127, 128, 300] {
            for size in [100, 30_000, 400_000, 1_040_000] {
                let sizes = vec![size; count];
                let pieces = pieces(&sizes, max_packet);
                let mut next = 0;
                for piece in &pieces {
                    assert_eq!(piece.start, next);
                    assert!(piece.len().is_power_of_two() && piece.len() <= MAX_ROWS);
                    assert!(piece.len() * size + PACKET_OVERHEAD <= max_packet);
                    next = piece.end;
                }
                assert_eq!(next, count);
            }
        }
    }
}
