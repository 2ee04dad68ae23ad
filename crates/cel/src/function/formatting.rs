//! Format strings: `'%s is %d'.format([a, b])`.

// upstream: vendor/github.com/google/cel-go/ext/formatting.go parseFormatString, parseFormattingClause, stringFormatValidator

use super::{
    convert,
    format_error::{ClauseError, FormatSyntaxError, FormatValueError},
    no_overload,
};
use crate::{
    error::EvalError,
    types::Type,
    value::{Result, Value, type_name},
};

const PRECISION: usize = 6;
/// More digits after the point than any number has.
const MAX_DIGITS: usize = 1100;
/// The deepest value that is written.
const DEEPEST: u32 = 64;

type FormatResult = std::result::Result<String, FormatValueError>;

/// A formatting verb.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FormatClause {
    String,
    Decimal,
    Fixed(usize),
    Scientific,
    Binary,
    Hex(HexDigits),
    Octal,
}

/// The case of the digits from ten to fifteen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum HexDigits {
    Lower,
    Upper,
}

/// A piece of a format.
pub(crate) enum FormatPiece<'f> {
    Text(&'f str),
    Clause(FormatClause),
}

pub(super) fn format<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::String(format), Value::List(list)] = args else {
        return no_overload(name, args);
    };
    let mut text = String::new();
    let mut index = 0;
    for piece in pieces(format, list.len()) {
        match piece.map_err(|error| EvalError::new(error.to_string()))? {
            FormatPiece::Text(piece) => text.push_str(piece),
            FormatPiece::Clause(clause) => {
                let value = list
                    .get(index)
                    .ok_or_else(|| EvalError::new(format!("index {index} out of range")))??;
                let written = write(clause, &value)
                    .map_err(|why| EvalError::new(format!("error during formatting: {why}")))?;
                text.push_str(&written);
                index += 1;
            }
        }
    }
    Ok(Value::text(text))
}

/// Cuts a format into pieces, for as many values as there are.
pub(crate) fn pieces(
    format: &str,
    values: usize,
) -> impl Iterator<Item = std::result::Result<FormatPiece<'_>, FormatSyntaxError>> {
    let mut rest = format;
    let mut index = 0;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let percent = rest.find('%').unwrap_or(rest.len());
        if percent > 0 {
            let text = &rest[..percent];
            rest = &rest[percent..];
            return Some(Ok(FormatPiece::Text(text)));
        }
        if rest.starts_with("%%") {
            rest = &rest[2..];
            return Some(Ok(FormatPiece::Text("%")));
        }
        if index >= values {
            rest = "";
            return Some(Err(FormatSyntaxError::MissingValue(index)));
        }
        index += 1;
        let read = clause(&rest[1..]);
        rest = read.as_ref().map_or("", |(_, after)| after);
        Some(read.map(|(clause, _)| FormatPiece::Clause(clause)))
    })
}

fn clause(text: &str) -> std::result::Result<(FormatClause, &str), FormatSyntaxError> {
    let wrong = |why| Err(FormatSyntaxError::Clause(why));
    let mut rest = text;
    let mut precision = PRECISION;
    if let Some(after) = text.strip_prefix('.') {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        rest = &after[digits..];
        if rest.is_empty() {
            return wrong(ClauseError::EndlessPrecision);
        }
        precision = if let Ok(number) = after[..digits].parse::<usize>() {
            number.min(MAX_DIGITS)
        } else {
            return wrong(ClauseError::InvalidPrecision(after[..digits].to_owned()));
        };
    }
    let Some(letter) = rest.chars().next() else {
        return Err(FormatSyntaxError::EndOfFormat);
    };
    let clause = match letter {
        's' => FormatClause::String,
        'd' => FormatClause::Decimal,
        'f' => FormatClause::Fixed(precision),
        'e' => FormatClause::Scientific,
        'b' => FormatClause::Binary,
        'x' => FormatClause::Hex(HexDigits::Lower),
        'X' => FormatClause::Hex(HexDigits::Upper),
        'o' => FormatClause::Octal,
        other => return wrong(ClauseError::UnknownVerb(other)),
    };
    Ok((clause, &rest[1..]))
}

/// Whether values of a type can be formatted by a verb; the error otherwise.
pub(crate) fn mismatch(clause: FormatClause, ty: &Type) -> Option<FormatValueError> {
    let fine = match clause {
        FormatClause::String => matches!(
            ty,
            Type::List(_)
                | Type::Map(..)
                | Type::Int
                | Type::Uint
                | Type::Double
                | Type::Bool
                | Type::String
                | Type::Timestamp
                | Type::Bytes
                | Type::Duration
                | Type::Type(_)
                | Type::Null
        ),
        FormatClause::Decimal | FormatClause::Octal => matches!(ty, Type::Int | Type::Uint),
        FormatClause::Fixed(_) | FormatClause::Scientific => matches!(ty, Type::Double | Type::String),
        FormatClause::Binary => matches!(ty, Type::Int | Type::Uint | Type::Bool),
        FormatClause::Hex(_) => matches!(ty, Type::Int | Type::Uint | Type::String | Type::Bytes),
    };
    (!fine && !ty.is_dyn()).then(|| FormatValueError::Mismatch {
        clause,
        found: type_name(ty),
    })
}

fn write(clause: FormatClause, value: &Value<'_>) -> FormatResult {
    if let Some(why) = mismatch(clause, &value.ty()) {
        return Err(why);
    }
    Ok(match (clause, value) {
        (FormatClause::String, value) => return string(value, 0),
        (FormatClause::Decimal, value) => value.to_string(),
        (FormatClause::Octal, Value::Int(number)) => signed(*number, |number| format!("{number:o}")),
        (FormatClause::Octal, Value::Uint(number)) => format!("{number:o}"),
        (FormatClause::Binary, Value::Bool(truth)) => u8::from(*truth).to_string(),
        (FormatClause::Binary, Value::Int(number)) => signed(*number, |number| format!("{number:b}")),
        (FormatClause::Binary, Value::Uint(number)) => format!("{number:b}"),
        (FormatClause::Hex(digits), value) => {
            let hex = match value {
                Value::Int(number) => signed(*number, |number| format!("{number:x}")),
                Value::Uint(number) => format!("{number:x}"),
                Value::String(text) => bytes(text.as_bytes()),
                Value::Bytes(data) => bytes(data),
                _ => String::new(),
            };
            match digits {
                HexDigits::Lower => hex,
                HexDigits::Upper => hex.to_uppercase(),
            }
        }
        (FormatClause::Fixed(precision), value) => grouped(&match number(clause, value)? {
            number if number.is_finite() => format!("{number:.precision$}"),
            number => return Ok(special(number)),
        }),
        (FormatClause::Scientific, value) => match number(clause, value)? {
            number if number.is_finite() => scientific(number),
            number => special(number),
        },
        _ => String::new(),
    })
}

fn signed(number: i64, write: impl Fn(u64) -> String) -> String {
    let text = write(number.unsigned_abs());
    if number < 0 { format!("-{text}") } else { text }
}

fn bytes(data: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |four: u8| char::from(DIGITS[usize::from(four)]);
    data.iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

fn number(clause: FormatClause, value: &Value<'_>) -> std::result::Result<f64, FormatValueError> {
    match value {
        Value::Double(number) => Ok(*number),
        Value::String(text) => match &**text {
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            _ => Err(FormatValueError::Mismatch {
                clause,
                found: "string".to_owned(),
            }),
        },
        other => Err(FormatValueError::NotNumber(other.to_string())),
    }
}

fn special(number: f64) -> String {
    match number {
        number if number.is_nan() => "NaN",
        number if number > 0.0 => "\u{221e}",
        _ => "-\u{221e}",
    }
    .to_owned()
}

/// With commas between thousands, as English has it.
fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut out = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

fn scientific(number: f64) -> String {
    let text = format!("{number:.PRECISION$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let raised: String = format!("{:02}", exponent.abs())
        .chars()
        .filter_map(|c| {
            "\u{2070}\u{b9}\u{b2}\u{b3}\u{2074}\u{2075}\u{2076}\u{2077}\u{2078}\u{2079}"
                .chars()
                .nth(c.to_digit(10)? as usize)
        })
        .collect();
    format!(
        "{digits}\u{202f}\u{d7}\u{202f}10{}{raised}",
        if exponent < 0 { "\u{207b}" } else { "" }
    )
}

fn string(value: &Value<'_>, depth: u32) -> FormatResult {
    match value {
        Value::List(_) | Value::Map(_) => nested(value, depth),
        Value::Null => Ok("null".to_owned()),
        Value::Type(ty) => Ok(type_name(ty)),
        value => match convert::text(value)? {
            Some(Value::String(text)) => Ok((*text).to_owned()),
            _ => Err(FormatValueError::Mismatch {
                clause: FormatClause::String,
                found: type_name(&value.ty()),
            }),
        },
    }
}

/// A value within a list or a map.
fn nested(value: &Value<'_>, depth: u32) -> FormatResult {
    if depth > DEEPEST {
        return Err(FormatValueError::TooDeep);
    }
    Ok(match value {
        Value::String(text) => format!("{:?}", &**text),
        Value::Bytes(_) => format!("b{:?}", string(value, depth)?),
        Value::Timestamp(_) => format!("timestamp(\"{value}\")"),
        Value::Duration(_) => format!("duration(\"{value}\")"),
        Value::Double(number) if !number.is_finite() => format!("{:?}", convert::double(*number)),
        Value::Double(number) => format!("{number:.6}"),
        Value::List(list) => {
            let items = list
                .iter()
                .map(|item| nested(&item?, depth + 1))
                .collect::<std::result::Result<Vec<_>, FormatValueError>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let mut entries = Vec::new();
            for key in map.keys() {
                if matches!(key, Value::Double(_)) {
                    return Err(FormatValueError::DoubleKey);
                }
                if let Some(value) = map.find(&key) {
                    entries.push((nested(&key, depth + 1)?, nested(&value?, depth + 1)?));
                }
            }
            entries.sort();
            let entries: Vec<String> = entries
                .into_iter()
                .map(|(key, value)| format!("{key}:{value}"))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Optional(_) | Value::Opaque(_) | Value::Message(..) => {
            return Err(FormatValueError::Unsupported(value.type_name()));
        }
        other => string(other, depth)?,
    })
}
