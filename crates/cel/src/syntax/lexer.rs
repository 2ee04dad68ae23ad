//! Cuts a source into tokens.
//!
//! Promises: linear in the source. What is no token is reported and skipped as clients know it: up to and with the first
//! character that could not follow.

// upstream: vendor/github.com/google/cel-go/parser/gen/cel_lexer.go CELLexer

use super::token::Token;

/// A token and where it stands, counted in characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// What a backslash is in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    /// The beginning of an escape.
    Read,
    /// Itself: `r'\n'`.
    Raw,
}

/// What could not be cut: from where to where.
pub(crate) type Unknown = (u32, u32);

/// Cuts a source. The last token is the end.
pub(crate) fn cut(source: &[char]) -> (Vec<Lexeme>, Vec<Unknown>) {
    let mut lexemes = Vec::new();
    let mut unknown = Vec::new();
    let mut at = 0;
    while at < source.len() {
        let rest = &source[at..];
        match scan(rest) {
            Scan::Hidden(length) => at += length,
            Scan::Token(token, length) => {
                lexemes.push(Lexeme {
                    token,
                    start: number(at),
                    end: number(at + length),
                });
                at += length;
            }
            Scan::Stuck(length) => {
                let end = (at + length + 1).min(source.len());
                unknown.push((number(at), number(end)));
                at = end;
            }
        }
    }
    let end = number(source.len());
    lexemes.push(Lexeme {
        token: Token::Eof,
        start: end,
        end,
    });
    (lexemes, unknown)
}

fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

enum Scan {
    Hidden(usize),
    Token(Token, usize),
    /// After as many characters nothing could follow.
    Stuck(usize),
}

fn scan(rest: &[char]) -> Scan {
    let second = rest.get(1).copied();
    let one = |token| Scan::Token(token, 1);
    let pair = |with: char, token: Token| {
        if second == Some(with) {
            Some(Scan::Token(token, 2))
        } else {
            None
        }
    };
    match rest[0] {
        '\t' | ' ' | '\r' | '\n' | '\u{c}' => {
            Scan::Hidden(count(rest, |c| matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}')))
        }
        '/' if second == Some('/') => Scan::Hidden(count(rest, |c| c != '\n')),
        '=' => pair('=', Token::Equals).unwrap_or(Scan::Stuck(1)),
        '!' => pair('=', Token::NotEquals).unwrap_or(one(Token::Not)),
        '<' => pair('=', Token::LessEquals).unwrap_or(one(Token::Less)),
        '>' => pair('=', Token::GreaterEquals).unwrap_or(one(Token::Greater)),
        '&' => pair('&', Token::And).unwrap_or(Scan::Stuck(1)),
        '|' => pair('|', Token::Or).unwrap_or(Scan::Stuck(1)),
        '[' => one(Token::LeftBracket),
        ']' => one(Token::RightBracket),
        '{' => one(Token::LeftBrace),
        '}' => one(Token::RightBrace),
        '(' => one(Token::LeftParen),
        ')' => one(Token::RightParen),
        ',' => one(Token::Comma),
        '-' => one(Token::Minus),
        '?' => one(Token::Question),
        ':' => one(Token::Colon),
        '+' => one(Token::Plus),
        '*' => one(Token::Star),
        '/' => one(Token::Slash),
        '%' => one(Token::Percent),
        '.' if !second.is_some_and(|c| c.is_ascii_digit()) => one(Token::Dot),
        '.' | '0'..='9' => number_token(rest),
        '"' | '\'' => match text(rest, Escapes::Read) {
            Ok(length) => Scan::Token(Token::String, length),
            Err(length) => Scan::Stuck(length),
        },
        '`' => escaped(rest),
        c if c.is_ascii_alphabetic() || c == '_' => word(rest),
        _ => Scan::Stuck(0),
    }
}

fn count(rest: &[char], is: impl Fn(char) -> bool) -> usize {
    rest.iter().take_while(|c| is(**c)).count()
}

fn digits(rest: &[char], from: usize) -> usize {
    rest.get(from..)
        .map_or(0, |rest| count(rest, |c| c.is_ascii_digit()))
}

fn number_token(rest: &[char]) -> Scan {
    if rest[0] == '0' && rest.get(1) == Some(&'x') {
        let hex = count(&rest[2..], |c| c.is_ascii_hexdigit());
        if hex > 0 {
            return suffixed(rest, 2 + hex);
        }
    }
    let whole = digits(rest, 0);
    let fraction = match rest.get(whole) {
        Some('.') => digits(rest, whole + 1),
        _ => 0,
    };
    let mut length = if fraction > 0 { whole + 1 + fraction } else { whole };
    let mut float = fraction > 0;
    if matches!(rest.get(length), Some('e' | 'E')) {
        let sign = usize::from(matches!(rest.get(length + 1), Some('+' | '-')));
        let exponent = digits(rest, length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
            float = true;
        }
    }
    if float {
        Scan::Token(Token::Float, length)
    } else {
        suffixed(rest, length)
    }
}

fn suffixed(rest: &[char], length: usize) -> Scan {
    match rest.get(length) {
        Some('u' | 'U') => Scan::Token(Token::Uint, length + 1),
        _ => Scan::Token(Token::Int, length),
    }
}

/// A name, a keyword, or a text with letters before its quote.
fn word(rest: &[char]) -> Scan {
    let length = count(rest, |c| c.is_ascii_alphanumeric() || c == '_');
    let bytes = usize::from(matches!(rest[0], 'b' | 'B'));
    let raw = usize::from(matches!(rest.get(bytes), Some('r' | 'R')));
    let prefix = bytes + raw;
    if prefix == length
        && matches!(rest.get(prefix), Some('"' | '\''))
        && let Ok(quoted) = text(
            &rest[prefix..],
            if raw == 1 { Escapes::Raw } else { Escapes::Read },
        )
    {
        let token = if bytes == 1 { Token::Bytes } else { Token::String };
        return Scan::Token(token, prefix + quoted);
    }
    let keyword = |text: &str| rest[..length].iter().copied().eq(text.chars());
    let token = match length {
        2 if keyword("in") => Token::In,
        4 if keyword("true") => Token::True,
        4 if keyword("null") => Token::Null,
        5 if keyword("false") => Token::False,
        _ => Token::Ident,
    };
    Scan::Token(token, length)
}

fn escaped(rest: &[char]) -> Scan {
    let inner = count(&rest[1..], |c| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ')
    });
    match rest.get(1 + inner) {
        Some('`') if inner > 0 => Scan::Token(Token::EscapedIdent, inner + 2),
        _ => Scan::Stuck(1 + inner),
    }
}

/// How long a text in quotes is, or where it cannot go on.
fn text(rest: &[char], escapes: Escapes) -> Result<usize, usize> {
    let quote = rest[0];
    if rest.get(1) == Some(&quote) && rest.get(2) == Some(&quote) {
        // Three quotes that are never closed are an empty text, and then something else.
        return Ok(long_text(rest, quote, escapes).unwrap_or(2));
    }
    let mut at = 1;
    loop {
        match rest.get(at) {
            Some(c) if *c == quote => return Ok(at + 1),
            Some('\n' | '\r') | None => return Err(at),
            Some('\\') if escapes == Escapes::Read => {
                at += escape(&rest[at..]).map_err(|stuck| at + stuck)?;
            }
            Some(_) => at += 1,
        }
    }
}

fn long_text(rest: &[char], quote: char, escapes: Escapes) -> Option<usize> {
    let mut at = 3;
    loop {
        match rest.get(at)? {
            c if *c == quote && rest.get(at + 1) == Some(&quote) && rest.get(at + 2) == Some(&quote) => {
                return Some(at + 3);
            }
            '\\' if escapes == Escapes::Read => at += escape(&rest[at..]).ok()?,
            _ => at += 1,
        }
    }
}

/// How long an escape is, or where it cannot go on.
fn escape(rest: &[char]) -> Result<usize, usize> {
    let digits = |from: usize, many: usize, is: fn(char) -> bool| {
        let got = rest
            .get(from..)
            .map_or(0, |rest| count(&rest[..rest.len().min(many)], is));
        if got == many {
            Ok(from + many)
        } else {
            Err(from + got)
        }
    };
    match rest.get(1) {
        Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => Ok(2),
        Some('0'..='3') => digits(2, 2, |c| matches!(c, '0'..='7')),
        Some('x' | 'X') => digits(2, 2, |c| c.is_ascii_hexdigit()),
        Some('u') => digits(2, 4, |c| c.is_ascii_hexdigit()),
        Some('U') => digits(2, 8, |c| c.is_ascii_hexdigit()),
        _ => Err(1),
    }
}
