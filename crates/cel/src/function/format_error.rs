//! Why a format or its values are wrong, in upstream's words.

// upstream: vendor/github.com/google/cel-go/ext/formatting.go parseFormatString, parseFormattingClause

use super::formatting::FormatClause;
use crate::error::EvalError;

/// Why a format cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FormatSyntaxError {
    #[error("index {0} out of range")]
    MissingValue(usize),
    #[error("unexpected end of string")]
    EndOfFormat,
    #[error("could not parse formatting clause: {0}")]
    Clause(#[source] ClauseError),
}

/// Why a clause of a format cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClauseError {
    #[error("error while parsing precision: could not find end of precision specifier")]
    EndlessPrecision,
    #[error(
        "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {0:?}: invalid \
         syntax"
    )]
    InvalidPrecision(String),
    #[error("unrecognized formatting clause \"{0}\"")]
    UnknownVerb(char),
}

/// Why a value cannot be formatted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FormatValueError {
    #[error("{}, was given {found}", clause.requirement())]
    Mismatch { clause: FormatClause, found: String },
    #[error("could not convert \"{0}\" to float64")]
    NotNumber(String),
    #[error("value nests too deep")]
    TooDeep,
    #[error("no formatting function for map key of type double")]
    DoubleKey,
    #[error("no formatting function for {0}")]
    Unsupported(String),
    #[error(transparent)]
    Value(#[from] EvalError),
}

impl FormatClause {
    fn requirement(self) -> &'static str {
        match self {
            FormatClause::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
                 timestamps"
            }
            FormatClause::Decimal => "decimal clause can only be used on integers",
            FormatClause::Octal => "octal clause can only be used on integers",
            FormatClause::Fixed(_) => "fixed-point clause can only be used on doubles",
            FormatClause::Scientific => "scientific clause can only be used on doubles",
            FormatClause::Binary => "only integers and bools can be formatted as binary",
            FormatClause::Hex(_) => "only integers, byte buffers, and strings can be formatted as hex",
        }
    }
}
