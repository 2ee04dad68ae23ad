//! Reading templates and paths.

use std::{iter::Peekable, str::Chars};

use serde_json::Value;

use super::{
    path::{Comparison, Filter, Operand, Path, Step},
    template::{Piece, Template},
};
use crate::failed::Failed;

/// A text that is read letter by letter.
struct Reader<'a> {
    whole: &'a str,
    letters: Peekable<Chars<'a>>,
}

// --- Template ---

impl Template {
    /// Reads a template.
    pub(crate) fn parse(text: &str) -> Result<Self, Failed> {
        let mut reader = Reader::new(text);
        let pieces = reader.pieces(false)?;
        Ok(Self(pieces))
    }
}

// --- Path ---

impl Path {
    /// Reads a single path: `{.a.b}`, `.a.b` or `a.b`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failed> {
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
        let mut reader = Reader::new(&dotted);
        if dotted.contains(['{', '}']) {
            return Err(reader.bad("a single path is wanted"));
        }
        let path = reader.path()?;
        match reader.letters.next() {
            None => Ok(path),
            Some(letter) => Err(reader.bad(&format!("unexpected {letter:?}"))),
        }
    }
}

// --- Reader ---

impl<'a> Reader<'a> {
    fn new(whole: &'a str) -> Self {
        Self {
            whole,
            letters: whole.chars().peekable(),
        }
    }

    fn bad(&self, why: &str) -> Failed {
        Failed::usage(format!("error parsing jsonpath {}: {why}", self.whole))
    }

    /// The pieces up to the end of the text, or up to `{end}`.
    fn pieces(&mut self, is_inner: bool) -> Result<Vec<Piece>, Failed> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        while let Some(letter) = self.letters.next() {
            if letter != '{' {
                literal.push(letter);
                continue;
            }
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            if self.inside(&mut pieces)? {
                return if is_inner {
                    Ok(pieces)
                } else {
                    Err(self.bad("not in range, nothing to end"))
                };
            }
        }
        if is_inner {
            return Err(self.bad("unterminated range, need {end}"));
        }
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(pieces)
    }

    /// What is in braces; whether it was `end`.
    fn inside(&mut self, pieces: &mut Vec<Piece>) -> Result<bool, Failed> {
        loop {
            self.skip_blanks();
            match self.letters.peek().copied() {
                None => return Err(self.bad("unclosed action: a } is missing")),
                Some('}') => {
                    self.letters.next();
                    return Ok(false);
                }
                Some('"' | '\'') => pieces.push(Piece::Text(self.quoted()?)),
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
                            pieces.push(Piece::Range(path, inner));
                            return Ok(false);
                        }
                        word => return Err(self.bad(&format!("unrecognized identifier {word}"))),
                    }
                }
                Some(_) => {
                    let path = self.path()?;
                    pieces.push(Piece::Path(path));
                }
            }
        }
    }

    fn close(&mut self) -> Result<(), Failed> {
        self.skip_blanks();
        match self.letters.next() {
            Some('}') => Ok(()),
            _ => Err(self.bad("unclosed action: a } is missing")),
        }
    }

    /// A path, as far as it goes.
    fn path(&mut self) -> Result<Path, Failed> {
        let mut path = Path::default();
        match self.letters.peek() {
            Some('$') => {
                path.is_rooted = true;
                self.letters.next();
            }
            Some('@') => {
                self.letters.next();
            }
            Some('.' | '[') => {}
            _ => return Err(self.bad("a path begins with . or [")),
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

    /// What follows a dot.
    fn dotted(&mut self, path: &mut Path) -> Result<(), Failed> {
        match self.letters.peek().copied() {
            Some('.') => {
                self.letters.next();
                path.steps.push(Step::Below);
                if !matches!(self.letters.peek(), Some('[')) {
                    self.field(path)?;
                }
            }
            Some('[') => {}
            _ => self.field(path)?,
        }
        Ok(())
    }

    fn field(&mut self, path: &mut Path) -> Result<(), Failed> {
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
            // `{.}` is everything at hand.
            "" if path.steps.is_empty() => {}
            "" => return Err(self.bad("a name is missing after a dot")),
            "*" => path.steps.push(Step::Every),
            _ => path.steps.push(Step::Fields(vec![name])),
        }
        Ok(())
    }

    /// What follows `[`, with its end.
    fn bracket(&mut self) -> Result<Step, Failed> {
        self.skip_blanks();
        match self.letters.peek() {
            Some('?') => {
                self.letters.next();
                let filter = self.filter()?;
                self.expect(']')?;
                return Ok(Step::Where(Box::new(filter)));
            }
            Some('\'' | '"') => {
                let mut names = vec![self.quoted()?];
                while self.skip_comma() {
                    self.skip_blanks();
                    names.push(self.quoted()?);
                }
                self.expect(']')?;
                return Ok(Step::Fields(names));
            }
            _ => {}
        }
        let mut inside = String::new();
        loop {
            match self.letters.next() {
                Some(']') => break,
                Some(letter) => inside.push(letter),
                None => return Err(self.bad("unterminated array: a ] is missing")),
            }
        }
        self.index(inside.trim())
    }

    fn index(&self, inside: &str) -> Result<Step, Failed> {
        let number = |text: &str| {
            let text = text.trim();
            text.parse::<i64>()
                .map_err(|_| self.bad(&format!("invalid array index {text}")))
        };
        if inside == "*" {
            return Ok(Step::Every);
        }
        if inside.contains(':') {
            let bound = |text: Option<&str>| match text.map(str::trim) {
                None | Some("") => Ok(None),
                Some(text) => number(text).map(Some),
            };
            let mut bounds = inside.split(':');
            return Ok(Step::Slice {
                from: bound(bounds.next())?,
                to: bound(bounds.next())?,
                step: bound(bounds.next())?,
            });
        }
        let indices: Result<Vec<i64>, Failed> = inside.split(',').map(number).collect();
        Ok(Step::Items(indices?))
    }

    /// `(@.a=="b")`
    fn filter(&mut self) -> Result<Filter, Failed> {
        self.expect('(')?;
        let left = self.operand()?;
        self.skip_blanks();
        let mut sign = String::new();
        while let Some(letter) = self.letters.next_if(|letter| "=!<>&|".contains(*letter)) {
            sign.push(letter);
        }
        let comparison = match sign.as_str() {
            "" => None,
            "=" | "==" => Some(Comparison::Equal),
            "!=" => Some(Comparison::Unequal),
            "<" => Some(Comparison::Less),
            "<=" => Some(Comparison::LessOrEqual),
            ">" => Some(Comparison::Greater),
            ">=" => Some(Comparison::GreaterOrEqual),
            sign => return Err(self.bad(&format!("unrecognized filter operator {sign}"))),
        };
        let test = match comparison {
            None => None,
            Some(comparison) => Some((comparison, self.operand()?)),
        };
        self.expect(')')?;
        Ok(Filter { left, test })
    }

    fn operand(&mut self) -> Result<Operand, Failed> {
        self.skip_blanks();
        match self.letters.peek().copied() {
            Some('@' | '$' | '.') => Ok(Operand::Path(self.path()?)),
            Some('"' | '\'') => Ok(Operand::Value(Value::String(self.quoted()?))),
            _ => {
                let mut word = String::new();
                while let Some(letter) = self.letters.next_if(|letter| !" )=!<>]".contains(*letter)) {
                    word.push(letter);
                }
                let value = serde_json::from_str(&word);
                value
                    .map(Operand::Value)
                    .map_err(|_| self.bad(&format!("cannot read {word:?} in a filter")))
            }
        }
    }

    /// A text in quotes, with its escapes.
    fn quoted(&mut self) -> Result<String, Failed> {
        let Some(quote @ ('"' | '\'')) = self.letters.next() else {
            return Err(self.bad("a text in quotes is wanted"));
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
        Err(self.bad("unterminated quoted string"))
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(letter) = self.letters.next_if(char::is_ascii_alphanumeric) {
            word.push(letter);
        }
        word
    }

    fn expect(&mut self, wanted: char) -> Result<(), Failed> {
        self.skip_blanks();
        match self.letters.next() {
            Some(letter) if letter == wanted => Ok(()),
            _ => Err(self.bad(&format!("a {wanted} is missing"))),
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
