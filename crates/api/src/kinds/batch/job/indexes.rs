//! Index sets as text: `1,3-5,7`.

use crate::go;

/// Why an index set is malformed; the messages are upstream's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum IndexesError {
    #[error("the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'", go::quote(.0))]
    Parts(String),
    #[error("cannot convert string to integer for index: {}", go::quote(.0))]
    Number(String),
    #[error("too large index: {}", go::quote(.0))]
    Large(String),
    #[error("non-increasing order, previous: {0}, current: {1}")]
    Order(i64, i64),
}

/// Counts the indexes of a set; all must be below the limit and increasing.
// upstream: pkg/apis/batch/validation/validation.go validateIndexesFormat
pub(super) fn count_indexes(text: &str, limit: i64) -> Result<i64, IndexesError> {
    let mut total = 0;
    let mut last = None;
    if text.is_empty() {
        return Ok(total);
    }
    for part in text.split(',') {
        let (first, end) = parse_index_interval(part, limit)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(IndexesError::Order(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// The first index that is in both sets. Malformed intervals are skipped: validation reports them elsewhere.
// upstream: pkg/apis/batch/validation/validation.go validateFailedIndexesNotOverlapCompleted
pub(super) fn first_common_index(one: &str, other: &str, limit: i64) -> Option<i64> {
    let read = |text: &str| -> Vec<(i64, i64)> {
        text.split(',')
            .filter_map(|part| parse_index_interval(part, limit).ok())
            .collect()
    };
    let first = read(one);
    let other = read(other);
    let mut ones = first.iter().peekable();
    let mut others = other.iter().peekable();
    while let (Some(a), Some(b)) = (ones.peek(), others.peek()) {
        if a.0 <= b.1 && b.0 <= a.1 {
            return Some(a.0.max(b.0));
        }
        if a.0 <= b.0 {
            ones.next();
        } else {
            others.next();
        }
    }
    None
}

// upstream: pkg/apis/batch/validation/validation.go parseIndexInterval
fn parse_index_interval(text: &str, limit: i64) -> Result<(i64, i64), IndexesError> {
    let parts: Vec<_> = text.split('-').collect();
    let index = |text: &str| {
        let index: i64 = text.parse().map_err(|_| IndexesError::Number(text.to_owned()))?;
        if index >= limit {
            return Err(IndexesError::Large(text.to_owned()));
        }
        Ok(index)
    };
    match parts[..] {
        [one] => index(one).map(|index| (index, index)),
        [first, last] => match (index(first)?, index(last)?) {
            (first, last) if first >= last => Err(IndexesError::Order(first, last)),
            both => Ok(both),
        },
        _ => Err(IndexesError::Parts(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_decreasing_and_large_indexes() {
        assert_eq!(count_indexes("", 5), Ok(0));
        assert_eq!(count_indexes("0,2-4", 5), Ok(4));
        let messages = |text: &str| count_indexes(text, 5).unwrap_err().to_string();
        assert_eq!(messages("5"), "too large index: \"5\"");
        assert_eq!(messages("0-5"), "too large index: \"5\"");
        assert_eq!(messages("a"), "cannot convert string to integer for index: \"a\"");
        assert_eq!(messages("3,1"), "non-increasing order, previous: 3, current: 1");
        assert_eq!(messages("2-2"), "non-increasing order, previous: 2, current: 2");
        assert_eq!(
            messages("1-2-3"),
            "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated \
             by '-'"
        );
    }

    #[test]
    fn finds_the_first_common_index() {
        assert_eq!(first_common_index("0-2,5", "3-4", 9), None);
        assert_eq!(first_common_index("0-2,5", "1,4", 9), Some(1));
        assert_eq!(first_common_index("x,5", "3-6", 9), Some(5));
    }
}
