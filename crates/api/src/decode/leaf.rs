//! Types with a string form: bytes, time, quantity.

use crate::base64::{self, Base64Error};
use crate::quantity::{ParseError, Quantity};
use crate::time::{ParseTimeError, Time};
use serde_json::Value;

/// Why a text is no value of its type.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LeafError {
    /// It is not base64.
    #[error(transparent)]
    Bytes(#[from] Base64Error),
    /// It is no time.
    #[error(transparent)]
    Time(#[from] ParseTimeError),
    /// It is no quantity.
    #[error(transparent)]
    Quantity(#[from] ParseError),
}

/// How exactly a time is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// To the second.
    Second,
    /// To the microsecond.
    Microsecond,
}

/// Bytes: read, and written again without line breaks.
pub(super) fn bytes(text: &str) -> Result<Value, LeafError> {
    let bytes = base64::decode(text)?;
    Ok(Value::String(base64::encode(&bytes)))
}

/// A time: in UTC, cut to its precision; none is `null`.
pub(super) fn time(text: &str, precision: Precision) -> Result<Value, LeafError> {
    let time = precision.read(text)?;
    Ok(if time == Time::ZERO {
        Value::Null
    } else {
        Value::String(precision.write(time))
    })
}

/// An amount, in the one form for it.
pub(crate) fn quantity(text: &str) -> Result<Value, LeafError> {
    let amount: Quantity = text.trim().parse()?;
    Ok(Value::String(amount.to_string()))
}

// --- Precision ---

impl Precision {
    /// Reads a time.
    pub(crate) fn read(self, text: &str) -> Result<Time, ParseTimeError> {
        match self {
            Self::Second => Time::parse(text),
            Self::Microsecond => Time::parse_micro(text),
        }
    }

    /// Writes a time.
    pub(crate) fn write(self, time: Time) -> String {
        match self {
            Self::Second => time.to_string(),
            Self::Microsecond => time.micro(),
        }
    }
}
