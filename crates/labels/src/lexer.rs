//! Tokens of label selectors.

// upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go Lexer, Lex, ScannedItem, Token

/// What a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

/// A word, and what errors show of it.
#[derive(Clone, Debug)]
pub(crate) struct ScannedItem {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// All tokens of a selector, the end included. A NUL ends a word, and alone it ends the selector.
pub(crate) fn scan(selector: &str) -> Vec<ScannedItem> {
    let mut rest = selector;
    let mut items = Vec::new();
    loop {
        rest = rest.trim_start_matches(is_space);
        let Some(first) = rest.chars().next().filter(|c| *c != '\0') else {
            items.push(ScannedItem {
                kind: Kind::End,
                text: String::new(),
            });
            return items;
        };
        let (word, length) = if is_sign(first) {
            sign(rest)
        } else {
            identifier(rest)
        };
        rest = &rest[length..];
        rest = rest.strip_prefix('\0').unwrap_or(rest);
        items.push(word);
    }
}

fn identifier(rest: &str) -> (ScannedItem, usize) {
    let length = rest
        .find(|c| is_sign(c) || is_space(c) || c == '\0')
        .unwrap_or(rest.len());
    let text = rest[..length].to_owned();
    let kind = match text.as_str() {
        "in" => Kind::In,
        "notin" => Kind::NotIn,
        _ => Kind::Identifier,
    };
    (ScannedItem { kind, text }, length)
}

fn sign(rest: &str) -> (ScannedItem, usize) {
    let two = match rest.as_bytes() {
        [b'=', b'=', ..] => Some(Kind::DoubleEquals),
        [b'!', b'=', ..] => Some(Kind::NotEquals),
        _ => None,
    };
    if let Some(kind) = two {
        return (
            ScannedItem {
                kind,
                text: rest[..2].to_owned(),
            },
            2,
        );
    }
    let kind = match rest.as_bytes()[0] {
        b'=' => Kind::Equals,
        b'!' => Kind::Not,
        b'(' => Kind::Open,
        b')' => Kind::Close,
        b',' => Kind::Comma,
        b'>' => Kind::Greater,
        _ => Kind::Less,
    };
    (
        ScannedItem {
            kind,
            text: rest[..1].to_owned(),
        },
        1,
    )
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_sign(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}
