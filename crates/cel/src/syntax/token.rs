//! The tokens of an expression.

// upstream: vendor/github.com/google/cel-go/parser/gen/cel_lexer.go CELLexer

use std::fmt::Write as _;

/// What a token is. The numbers are the order in which sets of them are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Token {
    Eof,
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Ident,
    EscapedIdent,
}

/// How tokens are called in errors, in the order of their numbers.
const NAMES: [&str; 36] = [
    "<EOF>",
    "'=='",
    "'!='",
    "'in'",
    "'<'",
    "'<='",
    "'>='",
    "'>'",
    "'&&'",
    "'||'",
    "'['",
    "']'",
    "'{'",
    "'}'",
    "'('",
    "')'",
    "'.'",
    "','",
    "'-'",
    "'!'",
    "'?'",
    "':'",
    "'+'",
    "'*'",
    "'/'",
    "'%'",
    "'true'",
    "'false'",
    "'null'",
    "NUM_FLOAT",
    "NUM_INT",
    "NUM_UINT",
    "STRING",
    "BYTES",
    "IDENTIFIER",
    "ESC_IDENTIFIER",
];

/// A set of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set(u64);

impl Set {
    pub(crate) const NONE: Set = Set(0);

    pub(crate) const fn of(tokens: &[Token]) -> Set {
        let mut bits = 0;
        let mut at = 0;
        while at < tokens.len() {
            bits |= 1 << tokens[at] as u8;
            at += 1;
        }
        Set(bits)
    }

    pub(crate) const fn with(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    pub(crate) const fn has(self, token: Token) -> bool {
        self.0 & (1 << token as u8) != 0
    }
}

impl std::fmt::Display for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = NAMES
            .iter()
            .enumerate()
            .filter(|(bit, _)| self.0 & (1 << bit) != 0)
            .map(|(_, name)| *name)
            .collect();
        match names.as_slice() {
            [one] => f.write_str(one),
            many => {
                f.write_char('{')?;
                for (at, name) in many.iter().enumerate() {
                    if at > 0 {
                        f.write_str(", ")?;
                    }
                    f.write_str(name)?;
                }
                f.write_char('}')
            }
        }
    }
}
