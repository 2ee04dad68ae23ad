//! The parser of templates and paths.

use std::{iter::Peekable, str::Chars};

use serde_json::Value;

use super::{
    path::{FilterComparison, FilterOperand, JsonPath, PathFilter, PathStep},
    template::{JsonPathTemplate, TemplatePiece},
};
use crate::error::ClientError;

/// A cursor over a template.
struct JsonPathParser<'a> {
    whole: &'a str,
    letters: Peekable<Chars<'a>>,
}

// --- JsonPathTemplate ---

impl JsonPathTemplate {
    /// Parses a template.
    pub(crate) fn parse(text: &str) -> Result<Self, ClientError> {
        let mut reader = JsonPathParser::new(text);
        let pieces = reader.pieces(false)?;
        Ok(Self(pieces))
    }
}

// --- JsonPath ---

impl JsonPath {
    /// Parses a single path: `{.a.b}`, `.a.b` or `a.b`.
    pub(crate) fn parse(text: &str) -> Result<Self, ClientError> {
        let bare = text.trim();
        let bare = bare
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or(bare)
            .trim();
        let dotted = if bare.starts_with(['.', '[', '$', '@']) {
            bare.to_owned()
        } else {
            format!(".{bare}")
        };
        let mut reader = JsonPathParser::new(&dotted);
        if dotted.contains(['{', '}']) {
            return Err(reader.error("a single path is wanted"));
        }
        let path = reader.path()?;
        match reader.letters.next() {
            None => Ok(path),
            Some(letter) => Err(reader.error(&format!("unexpected {letter:?}"))),
        }
    }
}

// --- JsonPathParser ---

impl<'a> JsonPathParser<'a> {
    fn new(whole: &'a str) -> Self {
        Self {
            whole,
            letters: whole.chars().peekable(),
        }
    }

    fn error(&self, why: &str) -> ClientError {
        ClientError::usage(format!("error parsing jsonpath {}: {why}", self.whole))
    }

    /// Parses pieces up to the end of the text, or up to `{end}`.
    fn pieces(&mut self, is_inner: bool) -> Result<Vec<TemplatePiece>, ClientError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        while let Some(letter) = self.letters.next() {
            if letter != '{' {
                literal.push(letter);
                continue;
            }
            if !literal.is_empty() {
                pieces.push(TemplatePiece::Text(std::mem::take(&mut literal)));
            }
            if self.content(&mut pieces)? {
                return if is_inner {
                    Ok(pieces)
                } else {
                    Err(self.error("not in range, nothing to end"))
                };
            }
        }
        if is_inner {
            return Err(self.error("unterminated range, need {end}"));
        }
        if !literal.is_empty() {
            pieces.push(TemplatePiece::Text(literal));
        }
        Ok(pieces)
    }

    /// Parses the content of braces. Returns whether it was `end`.
    fn content(&mut self, pieces: &mut Vec<TemplatePiece>) -> Result<bool, ClientError> {
        loop {
            self.skip_blanks();
            match self.letters.peek().copied() {
                None => return Err(self.error("unclosed action: a } is missing")),
                Some('}') => {
                    self.letters.next();
                    return Ok(false);
                }
                Some('"' | '\'') => pieces.push(TemplatePiece::Text(self.quoted()?)),
                Some(letter) if letter.is_ascii_alphabetic() => {
                    let word = self.word();
                    match word.as_str() {
                        "end" => {
                            self.close()?;
                            return Ok(true);
                        }
                        "range" => {
                            self.skip_blanks();
                            let path = self.path()?;
                            self.close()?;
                            let inner = self.pieces(true)?;
                            pieces.push(TemplatePiece::Range(path, inner));
                            return Ok(false);
                        }
                        word => return Err(self.error(&format!("unrecognized identifier {word}"))),
                    }
                }
                Some(_) => {
                    let path = self.path()?;
                    pieces.push(TemplatePiece::JsonPath(path));
                }
            }
        }
    }

    fn close(&mut self) -> Result<(), ClientError> {
        self.skip_blanks();
        match self.letters.next() {
            Some('}') => Ok(()),
            _ => Err(self.error("unclosed action: a } is missing")),
        }
    }

    /// Parses a path.
    fn path(&mut self) -> Result<JsonPath, ClientError> {
        let mut path = JsonPath::default();
        match self.letters.peek() {
            Some('$') => {
                path.is_rooted = true;
                self.letters.next();
            }
            Some('@') => {
                self.letters.next();
            }
            Some('.' | '[') => {}
            _ => return Err(self.error("a path begins with . or [")),
        }
        loop {
            match self.letters.peek() {
                Some('.') => {
                    self.letters.next();
                    self.dotted(&mut path)?;
                }
                Some('[') => {
                    self.letters.next();
                    let step = self.bracket()?;
                    path.steps.push(step);
                }
                _ => return Ok(path),
            }
        }
    }

    /// Parses what follows a dot.
    fn dotted(&mut self, path: &mut JsonPath) -> Result<(), ClientError> {
        match self.letters.peek().copied() {
            Some('.') => {
                self.letters.next();
                path.steps.push(PathStep::Below);
                if !matches!(self.letters.peek(), Some('[')) {
                    self.field(path)?;
                }
            }
            Some('[') => {}
            _ => self.field(path)?,
        }
        Ok(())
    }

    fn field(&mut self, path: &mut JsonPath) -> Result<(), ClientError> {
        let mut name = String::new();
        while let Some(&letter) = self.letters.peek() {
            match letter {
                '\\' => {
                    self.letters.next();
                    name.extend(self.letters.next());
                }
                '.' | '[' | ']' | '}' | ')' | ' ' | '\t' | '=' | '!' | '<' | '>' | ',' | '|' | '&' | '"'
                | '\'' => break,
                letter => {
                    self.letters.next();
                    name.push(letter);
                }
            }
        }
        match name.as_str() {
            // `{.}` is the current value.
            "" if path.steps.is_empty() => {}
            "" => return Err(self.error("a name is missing after a dot")),
            "*" => path.steps.push(PathStep::Every),
            _ => path.steps.push(PathStep::Fields(vec![name])),
        }
        Ok(())
    }

    /// Parses an index, a union or a filter after `[`, including the closing bracket.
    fn bracket(&mut self) -> Result<PathStep, ClientError> {
        self.skip_blanks();
        match self.letters.peek() {
            Some('?') => {
                self.letters.next();
                let filter = self.filter()?;
                self.expect(']')?;
                return Ok(PathStep::Where(Box::new(filter)));
            }
            Some('\'' | '"') => {
                let mut names = vec![self.quoted()?];
                while self.skip_comma() {
                    self.skip_blanks();
                    names.push(self.quoted()?);
                }
                self.expect(']')?;
                return Ok(PathStep::Fields(names));
            }
            _ => {}
        }
        let mut content = String::new();
        loop {
            match self.letters.next() {
                Some(']') => break,
                Some(letter) => content.push(letter),
                None => return Err(self.error("unterminated array: a ] is missing")),
            }
        }
        self.index(content.trim())
    }

    fn index(&self, content: &str) -> Result<PathStep, ClientError> {
        let number = |text: &str| {
            let text = text.trim();
            text.parse::<i64>()
                .map_err(|_| self.error(&format!("invalid array index {text}")))
        };
        if content == "*" {
            return Ok(PathStep::Every);
        }
        if content.contains(':') {
            let bound = |text: Option<&str>| match text.map(str::trim) {
                None | Some("") => Ok(None),
                Some(text) => number(text).map(Some),
            };
            let mut bounds = content.split(':');
            return Ok(PathStep::Slice {
                from: bound(bounds.next())?,
                to: bound(bounds.next())?,
                step: bound(bounds.next())?,
            });
        }
        let indices: Result<Vec<i64>, ClientError> = content.split(',').map(number).collect();
        Ok(PathStep::Items(indices?))
    }

    /// `(@.a=="b")`
    fn filter(&mut self) -> Result<PathFilter, ClientError> {
        self.expect('(')?;
        let left = self.operand()?;
        self.skip_blanks();
        let mut sign = String::new();
        while let Some(letter) = self.letters.next_if(|letter| "=!<>&|".contains(*letter)) {
            sign.push(letter);
        }
        let comparison = match sign.as_str() {
            "" => None,
            "=" | "==" => Some(FilterComparison::Equal),
            "!=" => Some(FilterComparison::Unequal),
            "<" => Some(FilterComparison::Less),
            "<=" => Some(FilterComparison::LessOrEqual),
            ">" => Some(FilterComparison::Greater),
            ">=" => Some(FilterComparison::GreaterOrEqual),
            sign => return Err(self.error(&format!("unrecognized filter operator {sign}"))),
        };
        let test = match comparison {
            None => None,
            Some(comparison) => Some((comparison, self.operand()?)),
        };
        self.expect(')')?;
        Ok(PathFilter { left, test })
    }

    fn operand(&mut self) -> Result<FilterOperand, ClientError> {
        self.skip_blanks();
        match self.letters.peek().copied() {
            Some('@' | '$' | '.') => Ok(FilterOperand::JsonPath(self.path()?)),
            Some('"' | '\'') => Ok(FilterOperand::Value(Value::String(self.quoted()?))),
            _ => {
                let mut word = String::new();
                while let Some(letter) = self.letters.next_if(|letter| !" )=!<>]".contains(*letter)) {
                    word.push(letter);
                }
                let value = serde_json::from_str(&word);
                value
                    .map(FilterOperand::Value)
                    .map_err(|_| self.error(&format!("cannot read {word:?} in a filter")))
            }
        }
    }

    /// Parses a quoted string with escapes.
    fn quoted(&mut self) -> Result<String, ClientError> {
        let Some(quote @ ('"' | '\'')) = self.letters.next() else {
            return Err(self.error("a text in quotes is wanted"));
        };
        let mut text = String::new();
        while let Some(letter) = self.letters.next() {
            match letter {
                '\\' => match self.letters.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(other) => text.push(other),
                    None => break,
                },
                letter if letter == quote => return Ok(text),
                letter => text.push(letter),
            }
        }
        Err(self.error("unterminated quoted string"))
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(letter) = self.letters.next_if(char::is_ascii_alphanumeric) {
            word.push(letter);
        }
        word
    }

    fn expect(&mut self, wanted: char) -> Result<(), ClientError> {
        self.skip_blanks();
        match self.letters.next() {
            Some(letter) if letter == wanted => Ok(()),
            _ => Err(self.error(&format!("a {wanted} is missing"))),
        }
    }

    fn skip_comma(&mut self) -> bool {
        self.skip_blanks();
        self.letters.next_if_eq(&',').is_some()
    }

    fn skip_blanks(&mut self) {
        while self.letters.next_if(char::is_ascii_whitespace).is_some() {}
    }
}
