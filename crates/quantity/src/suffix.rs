//! The letters after an amount.

use super::Format;

/// The scale of a suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suffix {
    pub(super) format: Format,
    /// Of two for the binary family, else of ten.
    pub(super) exponent: i32,
}

const DECIMAL: [(&str, i64); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The greatest power of 1024 that has a suffix.
pub(super) const MAX_BINARY: usize = BINARY.len() - 1;

/// What a suffix stands for, if it is one.
pub(super) fn interpret(suffix: &str) -> Option<Suffix> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        let exponent = i32::try_from(*exponent).expect("the table has small exponents");
        return Some(Suffix {
            format: Format::DecimalSi,
            exponent,
        });
    }
    if let Some(power) = BINARY.iter().skip(1).position(|name| *name == suffix) {
        let exponent = 10 * (1 + i32::try_from(power).expect("the table is short"));
        return Some(Suffix {
            format: Format::BinarySi,
            exponent,
        });
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some(Suffix {
        format: Format::DecimalExponent,
        exponent,
    })
}

/// The suffix of a power of ten, if it has one.
pub(super) fn decimal(exponent: i64) -> Option<&'static str> {
    DECIMAL
        .iter()
        .find(|(_, known)| *known == exponent)
        .map(|(name, _)| *name)
}

/// The suffix of a power of 1024, up to [`MAX_BINARY`].
pub(super) fn binary(power: usize) -> &'static str {
    BINARY[power]
}
