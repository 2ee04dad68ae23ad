//! Reads an amount.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go ParseQuantity, parseQuantityString

use super::{
    Format, Quantity,
    decimal::Decimal,
    suffix::{self, Suffix},
};

/// A text that is no amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not a number with a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number cannot be read: it has thousands of digits.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The parts of a text.
struct Parts<'t> {
    negative: bool,
    /// The digits before the point, without zeros at the front; never empty.
    whole: &'t str,
    /// The digits after the point.
    fraction: &'t str,
    suffix: &'t str,
}

const NANO: i64 = -9;

/// More digits than this are an attack: reading them as one number takes quadratic time.
const MAX_DIGITS: usize = 4096;

pub(super) fn parse(text: &str) -> Result<Quantity, ParseError> {
    if text.is_empty() {
        return Err(ParseError::Format);
    }
    let parts = split(text)?;
    let suffix = suffix::interpret(parts.suffix).ok_or(ParseError::Suffix)?;
    if parts.whole.len() + parts.fraction.len() > MAX_DIGITS {
        return Err(ParseError::Numeric);
    }
    let digits = [parts.whole, parts.fraction].concat();
    let kept = keeps_text(&parts, &digits, suffix) || text == "0";
    let fraction_digits = i64::try_from(parts.fraction.len()).expect("the digits are counted");
    let (exponent, shift) = match suffix.format {
        Format::BinarySi => (-fraction_digits, suffix.exponent.unsigned_abs()),
        _ => (i64::from(suffix.exponent) - fraction_digits, 0),
    };
    let mut amount = Decimal::from_digits(&digits, exponent, shift).ok_or(ParseError::Numeric)?;
    if let Some(rounded) = amount.round_up(NANO) {
        amount = rounded;
    }
    let mut format = suffix.format;
    if format == Format::BinarySi && !kept {
        amount = amount.at_most(i64::MAX);
        // Less than one has no binary form, and gets a decimal one.
        if amount.is_fraction() {
            format = Format::DecimalSi;
        }
    }
    if parts.negative {
        amount = amount.neg();
    }
    Ok(Quantity {
        amount,
        format,
        text: kept.then(|| text.into()),
    })
}

/// Whether a text is returned unchanged. Not quite the texts that are in the one form: clients compare what
/// they wrote with what they read, so this is a rule of the API by now.
fn keeps_text(parts: &Parts<'_>, digits: &str, suffix: Suffix) -> bool {
    let count = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    if suffix.format == Format::BinarySi {
        let digits_left = 15 - count - i64::from(suffix.exponent) * 3 / 10 - 1;
        let odd = digits.parse::<u64>().is_ok_and(|value| value % 8 != 0);
        return parts.fraction.is_empty() && digits_left >= 0 && odd;
    }
    let fraction_digits = i64::try_from(parts.fraction.len()).unwrap_or(i64::MAX);
    let scale = i64::from(suffix.exponent) - fraction_digits;
    count <= 18 && scale >= NANO && scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
}

fn split(text: &str) -> Result<Parts<'_>, ParseError> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let number = unsigned.trim_start_matches('0');
    let (whole, rest) = take(number, |b| b.is_ascii_digit());
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => take(rest, |b| b.is_ascii_digit()),
        None => ("", rest),
    };
    let (letters, tail) = take(rest, |b| b"eEinumkKMGTP".contains(&b));
    let digits = if tail.is_empty() {
        tail
    } else {
        tail.strip_prefix(['-', '+']).unwrap_or(tail)
    };
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ParseError::Format);
    }
    debug_assert_eq!(letters.len() + tail.len(), rest.len());
    Ok(Parts {
        negative,
        whole: if whole.is_empty() { "0" } else { whole },
        fraction,
        suffix: rest,
    })
}

fn take(text: &str, fits: impl Fn(u8) -> bool) -> (&str, &str) {
    let end = text.bytes().position(|b| !fits(b)).unwrap_or(text.len());
    text.split_at(end)
}
