//! JSON tokens, with the error messages of Go's scanner.

use super::error::DecodeError;
use std::borrow::Cow;

/// How deep values may stand within values. Go allows 10,000 on a stack that grows; this one does not.
pub(crate) const MAX_DEPTH: usize = 400;

/// Reads a text from the front.
// upstream: vendor/sigs.k8s.io/json/internal/golang/encoding/json/scanner.go scanner
pub(super) struct Lexer<'b> {
    bytes: &'b [u8],
    at: usize,
    depth: usize,
}

/// What a value begins as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueStart {
    Object,
    Array,
    String,
    Number,
    Bool(bool),
    Null,
}

/// Where a key or an item stands in its object or array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElementPosition {
    First,
    /// After a comma.
    Later,
}

// --- ElementPosition ---

impl ElementPosition {
    /// The position after this many elements.
    pub(super) fn after(elements: usize) -> Self {
        match elements {
            0 => Self::First,
            _ => Self::Later,
        }
    }
}

// --- Lexer ---

impl<'b> Lexer<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            depth: 0,
        }
    }

    /// What the next value begins as. Literals are consumed, the rest is not.
    pub(super) fn start(&mut self) -> Result<ValueStart, DecodeError> {
        match self.peek()? {
            b'{' => Ok(ValueStart::Object),
            b'[' => Ok(ValueStart::Array),
            b'"' => Ok(ValueStart::String),
            b'-' | b'0'..=b'9' => Ok(ValueStart::Number),
            b't' => self.literal("true").map(|()| ValueStart::Bool(true)),
            b'f' => self.literal("false").map(|()| ValueStart::Bool(false)),
            b'n' => self.literal("null").map(|()| ValueStart::Null),
            other => Err(bad(other, "looking for beginning of value")),
        }
    }

    /// Enters the object or array that `start` announced.
    pub(super) fn enter(&mut self) -> Result<(), DecodeError> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(DecodeError::Syntax("exceeded max depth".to_owned()));
        }
        Ok(())
    }

    /// The next key of an object, its colon included; `None` at its end.
    pub(super) fn key(&mut self, position: ElementPosition) -> Result<Option<Cow<'b, str>>, DecodeError> {
        if !self.key_begins(position)? {
            return Ok(None);
        }
        let key = self.string()?;
        self.colon()?;
        Ok(Some(key))
    }

    fn key_begins(&mut self, position: ElementPosition) -> Result<bool, DecodeError> {
        let mut next = self.peek()?;
        if next == b'}' {
            self.leave();
            return Ok(false);
        }
        if position == ElementPosition::Later {
            if next != b',' {
                return Err(bad(next, "after object key:value pair"));
            }
            self.at += 1;
            next = self.peek()?;
        }
        if next == b'"' {
            Ok(true)
        } else {
            Err(bad(next, "looking for beginning of object key string"))
        }
    }

    fn colon(&mut self) -> Result<(), DecodeError> {
        match self.peek()? {
            b':' => self.at += 1,
            other => return Err(bad(other, "after object key")),
        }
        Ok(())
    }

    /// Whether an array has one more item.
    pub(super) fn item(&mut self, position: ElementPosition) -> Result<bool, DecodeError> {
        let next = self.peek()?;
        if next == b']' {
            self.leave();
            return Ok(false);
        }
        if position == ElementPosition::Later {
            if next != b',' {
                return Err(bad(next, "after array element"));
            }
            self.at += 1;
        }
        Ok(true)
    }

    fn leave(&mut self) {
        self.at += 1;
        self.depth -= 1;
    }

    /// Makes sure that nothing follows.
    pub(super) fn end(&mut self) -> Result<(), DecodeError> {
        self.blank();
        match self.bytes.get(self.at) {
            None => Ok(()),
            Some(&other) => Err(bad(other, "after top-level value")),
        }
    }

    /// A string, its quotes excluded. What is not UTF-8 becomes the replacement character.
    pub(super) fn string(&mut self) -> Result<Cow<'b, str>, DecodeError> {
        self.at += 1;
        let plain = self.plain();
        if self.byte()? == b'"' {
            return Ok(String::from_utf8_lossy(plain));
        }
        let mut text = plain.to_vec();
        self.at -= 1;
        loop {
            match self.byte()? {
                b'"' => break,
                b'\\' => self.escape(&mut text)?,
                control => return Err(bad(control, "in string literal")),
            }
            text.extend_from_slice(self.plain());
        }
        Ok(Cow::Owned(String::from_utf8_lossy(&text).into_owned()))
    }

    /// The part of a string up to its end, an escape, or a control character, which is not allowed in it.
    fn plain(&mut self) -> &'b [u8] {
        let rest = &self.bytes[self.at..];
        let special = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < 0x20;
        let plain = &rest[..rest.iter().position(special).unwrap_or(rest.len())];
        self.at += plain.len();
        plain
    }

    pub(super) fn skip_string(&mut self) -> Result<(), DecodeError> {
        self.at += 1;
        let mut unused = Vec::new();
        loop {
            self.plain();
            match self.byte()? {
                b'"' => return Ok(()),
                b'\\' => self.escape(&mut unused)?,
                control => return Err(bad(control, "in string literal")),
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), DecodeError> {
        text.push(match self.byte()? {
            plain @ (b'"' | b'\\' | b'/') => plain,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let unit = self.hex()?;
                let char = self.pair(unit)?;
                text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            other => return Err(bad(other, "in string escape code")),
        });
        Ok(())
    }

    /// The character of a UTF-16 unit and, if need be, the one behind it. Halves without their other half
    /// become the replacement character.
    fn pair(&mut self, unit: u32) -> Result<char, DecodeError> {
        if (0xd800..0xdc00).contains(&unit) && self.bytes[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let low = self.hex()?;
            if (0xdc00..0xe000).contains(&low) {
                let joined = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&mut self) -> Result<u32, DecodeError> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.byte()?;
            let digit = char::from(byte).to_digit(16);
            unit = unit * 16 + digit.ok_or_else(|| bad(byte, "in \\u hexadecimal character escape"))?;
        }
        Ok(unit)
    }

    /// A number as it is written.
    pub(super) fn number(&mut self) -> Result<&'b str, DecodeError> {
        let begin = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        match self.byte()? {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            other => return Err(bad(other, "in numeric literal")),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            match self.byte()? {
                b'0'..=b'9' => self.digits(),
                other => return Err(bad(other, "after decimal point in numeric literal")),
            }
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            let mut next = self.byte()?;
            if matches!(next, b'+' | b'-') {
                next = self.byte()?;
            }
            if !next.is_ascii_digit() {
                return Err(bad(next, "in exponent of numeric literal"));
            }
            self.digits();
        }
        let literal = &self.bytes[begin..self.at];
        Ok(std::str::from_utf8(literal).expect("signs, digits, dots and e are ASCII"))
    }

    fn digits(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    /// Skips a value, checking its syntax.
    pub(super) fn skip(&mut self) -> Result<(), DecodeError> {
        let start = self.start()?;
        self.skip_started(start)
    }

    /// Skips the value that `start` announced.
    pub(super) fn skip_started(&mut self, start: ValueStart) -> Result<(), DecodeError> {
        match start {
            ValueStart::Bool(_) | ValueStart::Null => Ok(()),
            ValueStart::String => self.skip_string(),
            ValueStart::Number => self.number().map(drop),
            ValueStart::Object => {
                self.enter()?;
                let mut position = ElementPosition::First;
                while self.key_begins(position)? {
                    position = ElementPosition::Later;
                    self.skip_string()?;
                    self.colon()?;
                    self.skip()?;
                }
                Ok(())
            }
            ValueStart::Array => {
                self.enter()?;
                let mut position = ElementPosition::First;
                while self.item(position)? {
                    position = ElementPosition::Later;
                    self.skip()?;
                }
                Ok(())
            }
        }
    }

    fn literal(&mut self, word: &'static str) -> Result<(), DecodeError> {
        for expected in word.bytes() {
            let found = self.byte()?;
            if found != expected {
                let of = format!("in literal {word} (expecting {})", quoted(expected));
                return Err(bad(found, &of));
            }
        }
        Ok(())
    }

    /// The next byte that is not blank, not consumed.
    fn peek(&mut self) -> Result<u8, DecodeError> {
        self.blank();
        self.bytes.get(self.at).copied().ok_or_else(ended)
    }

    fn blank(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = self.bytes.get(self.at).copied().ok_or_else(ended)?;
        self.at += 1;
        Ok(byte)
    }
}

fn ended() -> DecodeError {
    DecodeError::Syntax("unexpected end of JSON input".to_owned())
}

fn bad(byte: u8, context: &str) -> DecodeError {
    DecodeError::Syntax(format!("invalid character {} {context}", quoted(byte)))
}

/// A byte as Go quotes it.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        7 => r"'\a'".to_owned(),
        8 => r"'\b'".to_owned(),
        9 => r"'\t'".to_owned(),
        10 => r"'\n'".to_owned(),
        11 => r"'\v'".to_owned(),
        12 => r"'\f'".to_owned(),
        13 => r"'\r'".to_owned(),
        0x20..0x7f | 0xa1..=0xac | 0xae..=0xff => format!("'{}'", char::from(byte)),
        ..0x80 => format!(r"'\x{byte:02x}'"),
        _ => format!(r"'\u{byte:04x}'"),
    }
}
