//! The parser of templates and paths.

// upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go Parser, parseAction

use serde_json::{Number, Value};

use crate::{
    error::ParseError,
    filter::{Comparison, Filter},
    path::{JsonPath, PathStep},
    template::Piece,
};

struct Parser<'t> {
    rest: &'t str,
}

/// Parses text with actions in braces.
pub(crate) fn parse_pieces(text: &str) -> Result<Vec<Piece>, ParseError> {
    let mut parser = Parser { rest: text };
    let mut pieces = Vec::new();
    while let Some((literal, rest)) = parser.rest.split_once('{') {
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal.to_owned()));
        }
        parser.rest = rest;
        pieces.push(Piece::Path(parser.action()?));
    }
    if !parser.rest.is_empty() {
        pieces.push(Piece::Text(parser.rest.to_owned()));
    }
    Ok(pieces)
}

/// Parses the content of braces.
pub(crate) fn parse_action(text: &str) -> Result<JsonPath, ParseError> {
    let pieces = parse_pieces(&format!("{{{text}}}"))?;
    match pieces.into_iter().next() {
        Some(Piece::Path(path)) => Ok(path),
        _ => Ok(JsonPath::default()),
    }
}

// --- Parser ---

impl<'t> Parser<'t> {
    fn next(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        Some(character)
    }

    fn skip(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Parses up to and including the closing brace.
    // upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go parseInsideAction
    fn action(&mut self) -> Result<JsonPath, ParseError> {
        let mut steps = Vec::new();
        loop {
            if self.skip("}") {
                return Ok(JsonPath { steps });
            }
            if self.skip("[?(") {
                steps.push(self.filter()?);
            } else if self.rest.starts_with("..") {
                if steps.last() == Some(&PathStep::Descent) {
                    return Err(ParseError::RepeatedDescent);
                }
                self.skip("..");
                steps.push(PathStep::Descent);
                if self.rest.starts_with(is_word) {
                    steps.push(self.field());
                }
            } else {
                self.segment(&mut steps)?;
            }
        }
    }

    fn segment(&mut self, steps: &mut Vec<PathStep>) -> Result<(), ParseError> {
        let before = self.rest;
        match self.next() {
            None | Some('\r' | '\n') => return Err(ParseError::UnclosedAction),
            // The current value.
            Some(' ' | '@' | '$') => {}
            Some('[') => self.brackets(steps)?,
            Some(quote @ ('"' | '\'')) => steps.push(self.string(quote)?),
            Some('.') => steps.push(self.field()),
            Some(character) if matches!(character, '+' | '-') || character.is_numeric() => {
                self.rest = before;
                steps.push(self.number()?);
            }
            Some(character) if is_word(character) => {
                self.rest = self
                    .rest
                    .trim_start_matches(|character| !is_terminator(character));
                let word = &before[..before.len() - self.rest.len()];
                steps.push(match word {
                    "true" => PathStep::Literal(Value::Bool(true)),
                    "false" => PathStep::Literal(Value::Bool(false)),
                    word => PathStep::Identifier(word.to_owned()),
                });
            }
            Some(character) => return Err(ParseError::Character(character)),
        }
        Ok(())
    }

    /// Parses a name. A backslash takes the next character literally.
    // upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go parseField
    fn field(&mut self) -> PathStep {
        let mut name = String::new();
        while let Some(character) = self.rest.chars().next() {
            if is_terminator(character) {
                break;
            }
            self.next();
            if character == '\\' {
                name.extend(self.next());
            } else {
                name.push(character);
            }
        }
        if name == "*" {
            PathStep::Wildcard
        } else {
            PathStep::Field(name)
        }
    }

    // upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go parseNumber
    fn number(&mut self) -> Result<PathStep, ParseError> {
        let text = self.rest;
        let signed = text.strip_prefix(['+', '-']).unwrap_or(text);
        self.rest = signed.trim_start_matches(|character: char| character == '.' || character.is_numeric());
        let number = &text[..text.len() - self.rest.len()];
        let value = match number.parse::<i64>() {
            Ok(integer) => Value::from(integer),
            Err(_) => number
                .parse()
                .ok()
                .and_then(Number::from_f64)
                .map(Value::Number)
                .ok_or_else(|| ParseError::Number(number.to_owned()))?,
        };
        Ok(PathStep::Literal(value))
    }

    // upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go parseArray
    fn brackets(&mut self, steps: &mut Vec<PathStep>) -> Result<(), ParseError> {
        let text = self.until_bracket().ok_or(ParseError::UnterminatedArray)?;
        if text.contains(',') {
            let part = |part: &str| parse_action(&format!("[{}]", part.trim_matches(' ')));
            let paths: Result<_, _> = text.split(',').map(part).collect();
            steps.push(PathStep::Union(paths?));
            return Ok(());
        }
        let key = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        if let Some(key) = key.filter(|key| !key.contains('\'')) {
            // A dot in quotes separates names, unless a backslash is before it.
            steps.extend(parse_action(&format!(".{key}"))?.steps);
            return Ok(());
        }
        steps.push(slice(text)?);
        Ok(())
    }

    /// Returns the text before the next `]` and consumes both.
    fn until_bracket(&mut self) -> Option<&'t str> {
        let (text, rest) = self.rest.split_once(']')?;
        self.rest = rest;
        Some(text).filter(|text| !text.contains('\n'))
    }

    // upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go parseFilter
    fn filter(&mut self) -> Result<PathStep, ParseError> {
        let whole = self.rest;
        let mut quote = None;
        let mut is_closed = false;
        let mut last = '(';
        loop {
            match self.next() {
                None | Some('\n') => return Err(ParseError::UnterminatedFilter),
                Some(character @ ('"' | '\'')) if quote.is_none() => quote = Some(character),
                Some(character) if quote == Some(character) && last != '\\' => is_closed = true,
                Some(')') if quote.is_some() == is_closed => break,
                Some(character) => last = character,
            }
        }
        let text = &whole[..whole.len() - self.rest.len() - 1];
        if !self.skip("]") {
            return Err(ParseError::UnclosedFilter);
        }
        let is_sign = |character: char| matches!(character, '!' | '<' | '>' | '=');
        let left = text.find(is_sign).map_or("", |end| &text[..end]);
        let right = text[left.len()..].trim_start_matches(is_sign);
        let filter = if left.is_empty() || right.is_empty() {
            Filter {
                left: parse_action(text)?,
                comparison: Comparison::Exists,
                right: JsonPath::default(),
            }
        } else {
            let operator = &text[left.len()..text.len() - right.len()];
            Filter {
                left: parse_action(left)?,
                comparison: Comparison::parse(operator),
                right: parse_action(right)?,
            }
        };
        Ok(PathStep::Filter(Box::new(filter)))
    }

    // upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go parseQuote, UnquoteExtend
    fn string(&mut self, quote: char) -> Result<PathStep, ParseError> {
        let whole = self.rest;
        let mut last = quote;
        loop {
            match self.next() {
                None | Some('\n') => return Err(ParseError::UnterminatedString),
                Some(character) if character == quote && last != '\\' => break,
                Some(character) => last = character,
            }
        }
        let quoted = &whole[..whole.len() - self.rest.len() - 1];
        Ok(PathStep::Literal(Value::String(unquote(quoted))))
    }
}

/// Parses an index or a slice.
fn slice(text: &str) -> Result<PathStep, ParseError> {
    if text == "*" {
        return Ok(PathStep::Slice {
            start: None,
            end: None,
            step: None,
        });
    }
    let parts: Vec<_> = text.split(':').collect();
    let is_bound = |part: &&str| {
        let digits = part.strip_prefix('-').unwrap_or(part);
        digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if parts.len() > 3 || !parts.iter().all(is_bound) {
        return Err(ParseError::Index(text.to_owned()));
    }
    let bound = |index: usize| match parts.get(index).copied() {
        None | Some("") => Ok(None),
        Some(part) => {
            let number = part.parse().map_err(|_| ParseError::IndexRange(part.to_owned()));
            number.map(Some)
        }
    };
    let start = bound(0)?;
    if parts.len() == 1 {
        // `[]` is the first item.
        return Ok(PathStep::Index(start.unwrap_or(0)));
    }
    Ok(PathStep::Slice {
        start,
        end: bound(1)?,
        step: bound(2)?,
    })
}

fn unquote(text: &str) -> String {
    let mut unquoted = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            unquoted.push(character);
            continue;
        }
        unquoted.extend(characters.next().map(|escaped| match escaped {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            other => other,
        }));
    }
    unquoted
}

fn is_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

/// Whether a character ends a name.
// upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go isTerminator
fn is_terminator(character: char) -> bool {
    matches!(
        character,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}
