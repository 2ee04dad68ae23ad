//! Between whole numbers and fractions.

/// A number as a fraction. Beyond 2^53 the last digits are lost, as in every score.
#[expect(clippy::cast_precision_loss, reason = "scores are rounded anyway")]
pub(crate) fn to_f64(number: i64) -> f64 {
    number as f64
}

/// A fraction, cut to a whole number.
#[expect(clippy::cast_possible_truncation, reason = "saturates, which is meant")]
pub(crate) fn to_i64(number: f64) -> i64 {
    number as i64
}

/// A count of things in memory.
pub(crate) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
