//! Operands: names, calls, constants, lists, maps and messages.

// upstream: vendor/github.com/google/cel-go/parser/parser.go VisitUnary, VisitSelect, VisitMemberCall, VisitCreateStruct

use std::sync::Arc;

use super::{
    ast::{Entry, Id, Init, Kind, Literal, Optionality},
    macros,
    parser::{ACCESS, EXPR, NAMES, OPT_EXPR, PRIMARY, ParseResult, Parser},
    recovery::{Follow, GrammarRule, ParseFailure, ParseStop},
    token::{Set, Token},
    unescape,
};
use crate::escape::is_reserved;

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> ParseResult<Id> {
        self.tokens.enter(GrammarRule::Primary, Follow::OrOuter(ACCESS))?;
        let result = self.operand();
        match self.tokens.leave(GrammarRule::Primary, result)? {
            Some(id) => Ok(id),
            None => self.broken(),
        }
    }

    fn operand(&mut self) -> ParseResult<Id> {
        self.tokens.sync(PRIMARY)?;
        match self.tokens.la() {
            Token::Ident => self.named(0),
            Token::Dot if self.tokens.peek(1) == Token::Ident => self.named(1),
            Token::Dot => Err(ParseStop::Failed(ParseFailure::NoAlternative(self.tokens.at + 1))),
            Token::LeftParen => {
                self.tokens.take(Token::LeftParen, Set::NONE)?;
                let inner = self.expr(Follow::Only(Set::of(&[Token::RightParen])))?;
                self.close(Token::RightParen)?;
                Ok(inner)
            }
            Token::LeftBracket => self.list(),
            Token::LeftBrace => self.map(),
            token if PRIMARY.has(token) => self.literal(),
            _ => Err(ParseStop::Failed(ParseFailure::NoAlternative(self.tokens.at))),
        }
    }

    /// A name, a call of a function, or a message; `dots` before it.
    fn named(&mut self, dots: usize) -> ParseResult<Id> {
        let start = self.tokens.offset();
        let mut end = dots + 1;
        while self.tokens.peek(end) == Token::Dot && self.tokens.peek(end + 1) == Token::Ident {
            end += 2;
        }
        let message = self.tokens.peek(end) == Token::LeftBrace;
        let mut name = String::new();
        if dots == 1 {
            self.tokens.take(Token::Dot, Set::NONE)?;
            name.push('.');
        }
        let offset = self.tokens.offset();
        let word = self.word()?;
        name.push_str(&word);
        if message {
            while self.tokens.la() == Token::Dot {
                self.tokens.take(Token::Dot, Set::NONE)?;
                name.push('.');
                name.push_str(&self.word()?);
            }
            return self.message(name.into());
        }
        let reserved = is_reserved(&word);
        if self.tokens.la() == Token::LeftParen {
            let offset = self.tokens.take(Token::LeftParen, Set::NONE)?;
            let args = self.arguments()?;
            if reserved {
                return self.wrong(start, format!("reserved identifier: {word}"));
            }
            if let Some(id) = macros::global(self, offset, &name, &args)? {
                return Ok(id);
            }
            return self.operator(offset, &name, args, 0);
        }
        if reserved {
            return self.wrong(start, format!("reserved identifier: {word}"));
        }
        self.node(offset, Kind::Ident(name.into()))
    }

    fn list(&mut self) -> ParseResult<Id> {
        let offset = self.tokens.take(Token::LeftBracket, Set::NONE)?;
        self.tokens
            .sync(OPT_EXPR.with(Set::of(&[Token::Comma, Token::RightBracket])))?;
        let mut items = Vec::new();
        let mut optionalities = Vec::new();
        if OPT_EXPR.has(self.tokens.la()) {
            self.tokens.enter(
                GrammarRule::ListInit,
                Follow::Only(Set::of(&[Token::Comma, Token::RightBracket])),
            )?;
            loop {
                let (item, optionality) = self.opt_expr(Follow::OrOuter(Set::of(&[Token::Comma])))?;
                items.push(item);
                optionalities.push(optionality);
                if !self.another(OPT_EXPR) {
                    break;
                }
                self.tokens.take(Token::Comma, Set::NONE)?;
            }
            self.tokens.leave(GrammarRule::ListInit, Ok(()))?;
        }
        self.trailing(Token::RightBracket)?;
        if !optionalities.contains(&Optionality::Optional) {
            optionalities.clear();
        }
        self.node(offset, Kind::List { items, optionalities })
    }

    /// Whether there is a comma, and something after it.
    fn another(&self, something: Set) -> bool {
        self.tokens.la() == Token::Comma && something.has(self.tokens.peek(1))
    }

    fn trailing(&mut self, closing: Token) -> ParseResult<()> {
        self.tokens.sync(Set::of(&[Token::Comma, closing]))?;
        if self.tokens.la() == Token::Comma {
            self.tokens.take(Token::Comma, Set::NONE)?;
        }
        self.close(closing)
    }

    fn opt_expr(&mut self, follow: Follow) -> ParseResult<(Id, Optionality)> {
        self.tokens.enter(GrammarRule::OptExpr, follow)?;
        let result = self.tokens.sync(OPT_EXPR).and_then(|()| {
            let optionality = self.question()?;
            Ok((self.expr(Follow::OrOuter(Set::NONE))?, optionality))
        });
        match self.tokens.leave(GrammarRule::OptExpr, result)? {
            Some(read) => Ok(read),
            None => Ok((self.broken()?, Optionality::Required)),
        }
    }

    fn map(&mut self) -> ParseResult<Id> {
        let offset = self.tokens.take(Token::LeftBrace, Set::NONE)?;
        self.tokens
            .sync(OPT_EXPR.with(Set::of(&[Token::Comma, Token::RightBrace])))?;
        let mut entries = Vec::new();
        if OPT_EXPR.has(self.tokens.la()) {
            self.tokens.enter(
                GrammarRule::MapInit,
                Follow::Only(Set::of(&[Token::Comma, Token::RightBrace])),
            )?;
            let result = self.entries(&mut entries);
            self.tokens.leave(GrammarRule::MapInit, result)?;
        }
        self.trailing(Token::RightBrace)?;
        self.node(offset, Kind::Map(entries))
    }

    fn entries(&mut self, entries: &mut Vec<Entry>) -> ParseResult<()> {
        loop {
            let (key, optionality) = self.opt_expr(Follow::Only(Set::of(&[Token::Colon])))?;
            self.tokens.take(Token::Colon, EXPR)?;
            let value = self.expr(Follow::OrOuter(Set::of(&[Token::Comma])))?;
            entries.push(Entry {
                key,
                value,
                optionality,
            });
            if !self.another(OPT_EXPR) {
                return Ok(());
            }
            self.tokens.take(Token::Comma, Set::NONE)?;
        }
    }

    fn message(&mut self, name: Arc<str>) -> ParseResult<Id> {
        let offset = self.tokens.take(Token::LeftBrace, Set::NONE)?;
        let start = NAMES.with(Set::of(&[Token::Question]));
        self.tokens
            .sync(start.with(Set::of(&[Token::Comma, Token::RightBrace])))?;
        let mut fields = Vec::new();
        if start.has(self.tokens.la()) {
            self.tokens.enter(
                GrammarRule::FieldInit,
                Follow::Only(Set::of(&[Token::Comma, Token::RightBrace])),
            )?;
            let result = self.inits(start, &mut fields);
            self.tokens.leave(GrammarRule::FieldInit, result)?;
        }
        self.trailing(Token::RightBrace)?;
        self.node(offset, Kind::Struct { name, fields })
    }

    fn inits(&mut self, start: Set, fields: &mut Vec<Init>) -> ParseResult<()> {
        loop {
            self.tokens
                .enter(GrammarRule::OptField, Follow::Only(Set::of(&[Token::Colon])))?;
            let result = self.tokens.sync(start).and_then(|()| {
                let optionality = self.question()?;
                Ok((self.name(Set::NONE)?, optionality))
            });
            let field = self.tokens.leave(GrammarRule::OptField, result)?;
            let offset = self.tokens.take(Token::Colon, EXPR)?;
            let value = self.expr(Follow::OrOuter(Set::of(&[Token::Comma])))?;
            if let Some((Some(field), optionality)) = field {
                fields.push(Init {
                    offset,
                    field,
                    value,
                    optionality,
                });
            }
            if !self.another(start) {
                return Ok(());
            }
            self.tokens.take(Token::Comma, Set::NONE)?;
        }
    }

    fn literal(&mut self) -> ParseResult<Id> {
        self.tokens
            .enter(GrammarRule::Literal, Follow::OrOuter(Set::NONE))?;
        let result = self.constant();
        match self.tokens.leave(GrammarRule::Literal, result)? {
            Some(id) => Ok(id),
            None => self.broken(),
        }
    }

    fn constant(&mut self) -> ParseResult<Id> {
        let offset = self.tokens.offset();
        let mut sign = "";
        if self.tokens.la() == Token::Minus {
            sign = "-";
            if !matches!(self.tokens.peek(1), Token::Int | Token::Float) {
                return Err(ParseStop::Failed(ParseFailure::NoAlternative(self.tokens.at + 1)));
            }
            self.tokens.take(Token::Minus, Set::NONE)?;
        }
        let lexeme = self.tokens.lexeme(self.tokens.at);
        let text = self.tokens.source.text(lexeme.start, lexeme.end);
        self.tokens.take(lexeme.token, Set::NONE)?;
        match constant(lexeme.token, sign, &text) {
            Ok(literal) => self.node(offset, Kind::Literal(literal)),
            Err(message) => self.wrong(offset, message.to_owned()),
        }
    }
}

fn constant(token: Token, sign: &str, text: &str) -> Result<Literal, &'static str> {
    Ok(match token {
        Token::Int => match text.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16),
            None => format!("{sign}{text}").parse(),
        }
        .map(Literal::Int)
        .map_err(|_| "invalid int literal")?,
        Token::Uint => {
            let digits = &text[..text.len() - 1];
            match digits.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => digits.parse(),
            }
            .map(Literal::Uint)
            .map_err(|_| "invalid uint literal")?
        }
        Token::Float => match format!("{sign}{text}").parse::<f64>() {
            Ok(number) if number.is_finite() => Literal::Double(number),
            _ => return Err("invalid double literal"),
        },
        Token::String => Literal::String(unescape::text(text)?.into()),
        Token::Bytes => Literal::Bytes(unescape::bytes(&text[1..])?.into()),
        Token::True => Literal::Bool(true),
        Token::False => Literal::Bool(false),
        _ => Literal::Null,
    })
}
