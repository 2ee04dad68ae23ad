//! Resource quantities: `500m`, `1.5Gi`, `3e6`.
//!
//! Promises: every amount clients may write is read, kept and compared exactly, down to a nano, and written in
//! the one form they know for it; what is written that way already is returned unchanged. Reading is linear
//! for texts of any length: no amount is expanded that someone wrote with a huge exponent.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go Quantity

mod decimal;
mod parse;
mod suffix;

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use serde_json::{Number, Value};

use self::decimal::Decimal;
pub use self::parse::ParseError;

/// An amount, and the family of suffixes it is written with.
///
/// Amounts are equal when they are the same amount: `1000m` is `1`.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Decimal,
    format: Format,
    /// The text it was read from, while that is as good as the one form.
    text: Option<Box<str>>,
}

/// A family of suffixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `Ki`, `Mi`, `Gi`: powers of 1024.
    BinarySi,
    /// `m`, `k`, `M`: powers of 1000.
    DecimalSi,
    /// `e3`, `e6`: powers of 1000, written as exponents.
    DecimalExponent,
}

/// The power of ten of a thousandth.
pub const MILLI: i32 = -3;

// --- Quantity ---

impl Quantity {
    /// Nothing.
    pub fn zero() -> Self {
        Self::new(0, Format::DecimalSi)
    }

    /// A whole amount.
    pub fn new(value: i64, format: Format) -> Self {
        Self::scaled(value, 0, format)
    }

    /// An amount of thousandths.
    pub fn milli(value: i64, format: Format) -> Self {
        Self::scaled(value, MILLI, format)
    }

    /// An amount of powers of ten.
    pub fn scaled(value: i64, scale: i32, format: Format) -> Self {
        Quantity {
            amount: Decimal::new(value, scale.into()),
            format,
            text: None,
        }
    }

    /// Parses the value of a field: a string, with optional surrounding spaces, or a number.
    pub fn from_value(value: &Value) -> Result<Self, ParseError> {
        match value {
            Value::String(text) => text.trim().parse(),
            Value::Number(number) => written(number).parse(),
            Value::Null => Ok(Self::zero()),
            _ => Err(ParseError::Format),
        }
    }

    /// The family of suffixes.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.sign() == Ordering::Equal
    }

    /// How it compares with nothing.
    pub fn sign(&self) -> Ordering {
        self.amount.sign()
    }

    /// The value in whole units, rounded away from zero and saturated.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The value in thousandths, rounded away from zero and saturated.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(MILLI)
    }

    /// The value in powers of ten, rounded away from zero and saturated.
    pub fn scaled_value(&self, scale: i32) -> i64 {
        self.amount.scaled(scale.into())
    }

    /// In whole units, if that is exact.
    pub fn to_i64(&self) -> Option<i64> {
        self.amount.exact()
    }

    /// About as much, for averages and ratios.
    pub fn to_f64(&self) -> f64 {
        self.amount.to_f64()
    }

    /// Adds a quantity. Zero takes on the suffix family of the addend.
    pub fn add(&mut self, other: &Quantity) {
        if self.is_zero() {
            self.format = other.format;
        }
        self.set(self.amount.add(&other.amount));
    }

    /// Subtracts a quantity. Zero takes on the suffix family of the subtrahend.
    pub fn sub(&mut self, other: &Quantity) {
        if self.is_zero() {
            self.format = other.format;
        }
        self.set(self.amount.add(&other.amount.neg()));
    }

    /// The same amount on the other side of zero.
    pub fn neg(&mut self) {
        self.set(self.amount.neg());
    }

    /// Rounds away from zero to a power of ten.
    pub fn round_up(&mut self, scale: i32) {
        if let Some(rounded) = self.amount.round_up(scale.into()) {
            self.set(rounded);
        }
    }

    fn set(&mut self, amount: Decimal) {
        self.amount = amount;
        self.text = None;
    }

    fn canonical(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        if self.format == Format::BinarySi
            && let Some((number, power)) = self.amount.base1024()
        {
            return format!("{number}{}", suffix::binary(power));
        }
        let (number, exponent) = self.amount.base1000();
        let named = if self.format == Format::DecimalExponent {
            None
        } else {
            suffix::decimal(exponent)
        };
        match named {
            Some(suffix) => format!("{number}{suffix}"),
            None if exponent == 0 => number,
            None => format!("{number}e{exponent}"),
        }
    }
}

impl FromStr for Quantity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse::parse(text)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.compare(&other.amount)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.amount.base1000().hash(state);
    }
}

/// A number as clients write it in JSON: with an exponent if it is very large or very small.
fn written(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) if float != 0.0 && !(1e-6..1e21).contains(&float.abs()) => format!("{float:e}"),
        Some(float) => format!("{float}"),
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests;
