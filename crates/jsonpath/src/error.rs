//! Errors of paths, with client-go's messages.

/// Text that is not JSONPath.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// A closing brace is missing.
    #[error("unclosed action")]
    UnclosedAction,
    /// `..` follows `..`.
    #[error("invalid multiple recursive descent")]
    RepeatedDescent,
    /// A character that begins nothing.
    #[error("unrecognized character in action: {}", code_point(*.0))]
    Character(char),
    /// Digits that are not a number.
    #[error("cannot parse number {0}")]
    Number(String),
    /// `[` without `]`.
    #[error("unterminated array")]
    UnterminatedArray,
    /// The content of brackets is neither an index, a slice nor a quoted name.
    #[error("invalid array index {0}")]
    Index(String),
    /// An index that no machine word holds.
    #[error("array index {0} is not a number")]
    IndexRange(String),
    /// `[?(` without `)`.
    #[error("unterminated filter")]
    UnterminatedFilter,
    /// `[?(...)` without `]`.
    #[error("unclosed array expect ]")]
    UnclosedFilter,
    /// A quoted string without its closing quote.
    #[error("unterminated quoted string")]
    UnterminatedString,
    /// A word other than `range` and `end`.
    #[error("unrecognized identifier {0}")]
    Identifier(String),
    /// A comparison that does not exist.
    #[error("unrecognized filter operator {0}")]
    Operator(String),
    /// `{end}` without `{range}`.
    #[error("not in range, nothing to end")]
    EndWithoutRange,
    /// `{range}` without `{end}`.
    #[error("unterminated range, need {{end}}")]
    UnterminatedRange,
    /// Several actions, or text, where one path is expected.
    #[error("expected a single path")]
    NotSinglePath,
}

/// A path cannot be evaluated on an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationError {
    /// An index or a filter is applied to a value that is not a list.
    #[error("value is not array or slice")]
    NotList,
    /// An index that the list does not have.
    #[error("array index out of bounds: index {index}, length {length}")]
    OutOfBounds {
        /// The index.
        index: i64,
        /// The length of the list.
        length: usize,
    },
    /// A slice with a step of zero or less.
    #[error("step must be > 0")]
    Step,
    /// A comparison of several values.
    #[error("can only compare one element at a time")]
    Several,
    /// A comparison of values of different types, or of types without an order.
    #[error("incompatible types for comparison")]
    Incompatible,
    /// A comparison that does not exist.
    #[error("unrecognized filter operator {0}")]
    Operator(String),
    /// A word where a path is expected.
    #[error("unrecognized identifier {0}")]
    Identifier(String),
    /// The path finds more values than are kept in memory.
    #[error("too many values")]
    TooMany,
}

/// Formats a character like `%#U` of Go: its code point, and the character if it is printable.
fn code_point(character: char) -> String {
    let code = u32::from(character);
    // After a letter, Rust escapes the characters outside ASCII that Go does not print.
    let is_printable = if character.is_ascii() {
        character.is_ascii_graphic() || character == ' '
    } else {
        format!("a{character}").escape_debug().count() == 2
    };
    if is_printable {
        format!("U+{code:04X} '{character}'")
    } else {
        format!("U+{code:04X}")
    }
}
