//! Reads an expression.
//!
//! Promises: any text is a tree or issues; the tree is no deeper than the limits below, however the text nests.

// upstream: vendor/github.com/google/cel-go/parser/parser.go Parse, Visit

use std::sync::Arc;

use super::{
    ast::{Ast, Id, Kind, Literal, Optionality, SelectKind},
    lexer,
    macros::{self, Macros},
    recovery::{Follow, GrammarRule, MAX_RECURSION_DEPTH, ParseFailure, ParseStop, Tokens},
    token::{Set, Token},
};
use crate::source::{Issue, Source};

/// The longest expression, in characters.
const LONGEST: usize = 100_000;
/// The most nodes of a tree. Macros that repeat what they are called on could make more.
const MAX_NODES: usize = 400_000;
/// The deepest tree that is worked on: what recurses over it stays within a small stack.
const DEEPEST_TREE: u32 = 400;

const RELATIONS: Set = Set::of(&[
    Token::Less,
    Token::LessEquals,
    Token::GreaterEquals,
    Token::Greater,
    Token::Equals,
    Token::NotEquals,
    Token::In,
]);
const CALCULATIONS: Set = Set::of(&[
    Token::Star,
    Token::Slash,
    Token::Percent,
    Token::Plus,
    Token::Minus,
]);
/// What can follow an operand within its expression.
const OPERATORS: Set = RELATIONS
    .with(CALCULATIONS)
    .with(Set::of(&[Token::And, Token::Or]));
pub(super) const ACCESS: Set = Set::of(&[Token::Dot, Token::LeftBracket]);
pub(super) const PRIMARY: Set = Set::of(&[
    Token::LeftBracket,
    Token::LeftBrace,
    Token::LeftParen,
    Token::Dot,
    Token::Minus,
    Token::True,
    Token::False,
    Token::Null,
    Token::Float,
    Token::Int,
    Token::Uint,
    Token::String,
    Token::Bytes,
    Token::Ident,
]);
pub(super) const EXPR: Set = PRIMARY.with(Set::of(&[Token::Not]));
pub(super) const OPT_EXPR: Set = EXPR.with(Set::of(&[Token::Question]));
pub(super) const NAMES: Set = Set::of(&[Token::Ident, Token::EscapedIdent]);

pub(super) type ParseResult<T> = Result<T, ParseStop>;

/// Reads a source with the macros of an environment.
pub(crate) fn parse(source: &Source, macros: Macros) -> Result<Ast, Vec<Issue>> {
    if source.chars.len() > LONGEST {
        let size = source.chars.len();
        let message = format!("expression code point size exceeds limit: size: {size}, limit {LONGEST}");
        return Err(vec![Issue {
            offset: None,
            message,
        }]);
    }
    let (lexemes, unknown) = lexer::cut(&source.chars);
    let tokens = Tokens::new(source, lexemes, &unknown)?;
    let mut parser = Parser {
        tokens,
        ast: Ast::default(),
        heights: Vec::new(),
        macros,
    };
    // A halt has its issue already.
    if let Ok(root) = parser.start() {
        parser.ast.root = root;
    }
    if parser.tokens.issues.is_empty() {
        Ok(parser.ast)
    } else {
        Err(parser.tokens.issues)
    }
}

pub(super) struct Parser<'s> {
    pub(super) tokens: Tokens<'s>,
    pub(super) ast: Ast,
    /// Of each node: how deep operators nest in it, and how deep nodes do.
    pub(super) heights: Vec<(u32, u32)>,
    macros: Macros,
}

impl Parser<'_> {
    /// Adds a node; its children are there already.
    pub(super) fn node(&mut self, offset: u32, kind: Kind) -> ParseResult<Id> {
        self.weighed(offset, kind, 0)
    }

    fn weighed(&mut self, offset: u32, kind: Kind, weight: u32) -> ParseResult<Id> {
        let mut height = (0, 0);
        each_child(&kind, |child| {
            let (operators, nodes) = self.heights[child as usize];
            height = (height.0.max(operators), height.1.max(nodes));
        });
        let height = (height.0 + weight, height.1 + 1);
        let id = self.ast.add(offset, kind);
        self.heights.push(height);
        if height.0 > MAX_RECURSION_DEPTH || height.1 > DEEPEST_TREE || self.ast.nodes.len() > MAX_NODES {
            self.tokens.halt("max recursion depth exceeded".to_owned())?;
        }
        Ok(id)
    }

    pub(super) fn broken(&mut self) -> ParseResult<Id> {
        self.node(0, Kind::Broken)
    }

    /// A node for something that is wrong.
    pub(super) fn wrong(&mut self, offset: u32, message: String) -> ParseResult<Id> {
        self.tokens.issue(Some(offset), message);
        self.node(offset, Kind::Broken)
    }

    fn start(&mut self) -> ParseResult<Id> {
        self.tokens.enter(GrammarRule::Start, Follow::Only(Set::NONE))?;
        let root = self.expr(Follow::Only(Set::of(&[Token::Eof])))?;
        let end = self.tokens.take(Token::Eof, Set::NONE).map(|_| ());
        self.tokens.leave(GrammarRule::Start, end)?;
        Ok(root)
    }

    pub(super) fn expr(&mut self, follow: Follow) -> ParseResult<Id> {
        self.tokens.enter(GrammarRule::Expr, follow)?;
        let result = self.conditional();
        match self.tokens.leave(GrammarRule::Expr, result)? {
            Some(id) => Ok(id),
            None => self.broken(),
        }
    }

    fn conditional(&mut self) -> ParseResult<Id> {
        let condition = self.logic(Follow::OrOuter(Set::of(&[Token::Question])))?;
        if self.tokens.la() != Token::Question {
            return Ok(condition);
        }
        let offset = self.tokens.take(Token::Question, Set::NONE)?;
        let yes = self.logic(Follow::Only(Set::of(&[Token::Colon])))?;
        self.tokens.take(Token::Colon, EXPR)?;
        let no = self.expr(Follow::OrOuter(Set::NONE))?;
        self.operator(offset, "_?_:_", vec![condition, yes, no], 1)
    }

    pub(super) fn operator(
        &mut self,
        offset: u32,
        name: &str,
        args: Vec<Id>,
        weight: u32,
    ) -> ParseResult<Id> {
        self.weighed(
            offset,
            Kind::Call {
                function: name.into(),
                target: None,
                args,
            },
            weight,
        )
    }

    /// Terms joined by `||`, each of them joined by `&&`.
    fn logic(&mut self, follow: Follow) -> ParseResult<Id> {
        // These two rules never fail by themselves; what may follow them is all that is kept of them.
        self.tokens
            .enter(GrammarRule::Start, follow.with(Set::of(&[Token::Or, Token::And])))?;
        let mut ors = Vec::new();
        let mut or_offsets = Vec::new();
        loop {
            let mut ands = vec![self.relation()?];
            let mut and_offsets = Vec::new();
            while self.tokens.la() == Token::And {
                and_offsets.push(self.tokens.take(Token::And, Set::NONE)?);
                ands.push(self.relation()?);
            }
            ors.push(self.balanced("_&&_", &ands, &and_offsets)?);
            if self.tokens.la() != Token::Or {
                break;
            }
            or_offsets.push(self.tokens.take(Token::Or, Set::NONE)?);
        }
        self.tokens.leave(GrammarRule::Start, Ok(()))?;
        self.balanced("_||_", &ors, &or_offsets)
    }

    /// A tree of terms that is as flat as can be.
    fn balanced(&mut self, name: &str, terms: &[Id], offsets: &[u32]) -> ParseResult<Id> {
        if offsets.is_empty() {
            return Ok(terms[0]);
        }
        let middle = offsets.len() / 2;
        let left = self.balanced(name, &terms[..=middle], &offsets[..middle])?;
        let right = self.balanced(name, &terms[middle + 1..], &offsets[middle + 1..])?;
        self.operator(offsets[middle], name, vec![left, right], 0)
    }

    fn relation(&mut self) -> ParseResult<Id> {
        self.tokens
            .enter(GrammarRule::Relation, Follow::OrOuter(RELATIONS))?;
        let mut left = self.calc(0)?;
        while RELATIONS.has(self.tokens.la()) {
            let name = match self.tokens.la() {
                Token::Less => "_<_",
                Token::LessEquals => "_<=_",
                Token::GreaterEquals => "_>=_",
                Token::Greater => "_>_",
                Token::Equals => "_==_",
                Token::NotEquals => "_!=_",
                _ => "@in",
            };
            let offset = self.tokens.take(self.tokens.la(), Set::NONE)?;
            let operand = self.related()?;
            left = self.operator(offset, name, vec![left, operand], 1)?;
        }
        self.tokens.leave(GrammarRule::Relation, Ok(()))?;
        Ok(left)
    }

    /// The right side of a relation: what follows it belongs to the relation around it.
    fn related(&mut self) -> ParseResult<Id> {
        self.tokens
            .enter(GrammarRule::Relation, Follow::OrOuter(RELATIONS))?;
        let operand = self.calc(0)?;
        self.tokens.leave(GrammarRule::Relation, Ok(()))?;
        Ok(operand)
    }

    /// Sums, or products if `level` is one, or one operand.
    fn calc(&mut self, level: u8) -> ParseResult<Id> {
        self.tokens
            .enter(GrammarRule::Calc, Follow::OrOuter(CALCULATIONS))?;
        let mut left = self.unary()?;
        loop {
            let (name, right) = match self.tokens.la() {
                Token::Star if level < 2 => ("_*_", 2),
                Token::Slash if level < 2 => ("_/_", 2),
                Token::Percent if level < 2 => ("_%_", 2),
                Token::Plus if level < 1 => ("_+_", 1),
                Token::Minus if level < 1 => ("_-_", 1),
                _ => break,
            };
            let offset = self.tokens.take(self.tokens.la(), Set::NONE)?;
            let operand = self.calc(right)?;
            left = self.operator(offset, name, vec![left, operand], 1)?;
        }
        self.tokens.leave(GrammarRule::Calc, Ok(()))?;
        Ok(left)
    }

    fn unary(&mut self) -> ParseResult<Id> {
        self.tokens
            .enter(GrammarRule::Unary, Follow::OrOuter(Set::NONE))?;
        let result = self.signed();
        match self.tokens.leave(GrammarRule::Unary, result)? {
            Some(id) => Ok(id),
            None => self.broken(),
        }
    }

    fn signed(&mut self) -> ParseResult<Id> {
        self.tokens.sync(EXPR)?;
        let (sign, name, expected) = match (self.tokens.la(), self.tokens.peek(1)) {
            (Token::Not, _) => (Token::Not, "!_", EXPR),
            (Token::Minus, Token::Int | Token::Float) => return self.member(),
            (Token::Minus, next) if PRIMARY.has(next) => (Token::Minus, "-_", PRIMARY),
            (Token::Minus, _) => {
                return Err(ParseStop::Failed(ParseFailure::NoAlternative(self.tokens.at + 1)));
            }
            (token, _) if PRIMARY.has(token) => return self.member(),
            _ => return Err(ParseStop::Failed(ParseFailure::NoAlternative(self.tokens.at))),
        };
        let offset = self.tokens.offset();
        let mut odd = false;
        while self.tokens.la() == sign {
            if sign == Token::Minus && !PRIMARY.has(self.tokens.peek(1)) {
                return Err(ParseStop::Failed(ParseFailure::NoAlternative(self.tokens.at + 1)));
            }
            self.tokens.take(sign, Set::NONE)?;
            odd = !odd;
            self.tokens.sync_loop(expected)?;
        }
        let operand = self.member()?;
        if odd {
            self.operator(offset, name, vec![operand], 0)
        } else {
            Ok(operand)
        }
    }

    fn member(&mut self) -> ParseResult<Id> {
        self.tokens
            .enter(GrammarRule::Member, Follow::OrOuter(Set::NONE))?;
        let result = self.accesses();
        match self.tokens.leave(GrammarRule::Member, result)? {
            Some(id) => Ok(id),
            None => self.broken(),
        }
    }

    fn accesses(&mut self) -> ParseResult<Id> {
        let mut operand = self.primary()?;
        loop {
            operand = match (self.tokens.la(), self.tokens.peek(1), self.tokens.peek(2)) {
                (Token::Dot, Token::Ident, Token::LeftParen) => self.method(operand)?,
                (Token::Dot, Token::Question | Token::Ident | Token::EscapedIdent, _) => {
                    self.select(operand)?
                }
                (Token::Dot, ..) => {
                    return Err(ParseStop::Failed(ParseFailure::NoAlternative(self.tokens.at + 1)));
                }
                (Token::LeftBracket, ..) => self.index(operand)?,
                _ => return Ok(operand),
            };
        }
    }

    fn method(&mut self, target: Id) -> ParseResult<Id> {
        self.tokens.take(Token::Dot, Set::NONE)?;
        let name = self.word()?;
        let offset = self.tokens.take(Token::LeftParen, Set::NONE)?;
        let args = self.arguments()?;
        let mut height = self.heights[target as usize].0;
        for arg in &args {
            height = height.max(self.heights[*arg as usize].0);
        }
        if let Some(id) = macros::receiver(self, self.macros, offset, &name, target, &args)? {
            self.heights[id as usize].0 = height + 1;
            return Ok(id);
        }
        self.weighed(
            offset,
            Kind::Call {
                function: name,
                target: Some(target),
                args,
            },
            1,
        )
    }

    fn select(&mut self, operand: Id) -> ParseResult<Id> {
        let offset = self.tokens.take(Token::Dot, Set::NONE)?;
        let access = self.question()?;
        let at = self.tokens.offset();
        let Some(field) = self.name(ACCESS)? else {
            return self.broken();
        };
        if access == Optionality::Optional {
            let field = self.node(at, Kind::Literal(Literal::String(field)))?;
            return self.operator(offset, "_?._", vec![operand, field], 1);
        }
        self.weighed(
            offset,
            Kind::Select {
                operand,
                field,
                kind: SelectKind::Value,
            },
            1,
        )
    }

    fn index(&mut self, operand: Id) -> ParseResult<Id> {
        let offset = self.tokens.take(Token::LeftBracket, Set::NONE)?;
        self.tokens.sync(OPT_EXPR)?;
        let access = self.question()?;
        let index = self.expr(Follow::Only(Set::of(&[Token::RightBracket])))?;
        self.close(Token::RightBracket)?;
        let name = match access {
            Optionality::Required => "_[_]",
            Optionality::Optional => "_[?_]",
        };
        self.operator(offset, name, vec![operand, index], 1)
    }

    pub(super) fn question(&mut self) -> ParseResult<Optionality> {
        if self.tokens.la() != Token::Question {
            return Ok(Optionality::Required);
        }
        self.tokens.take(Token::Question, Set::NONE)?;
        Ok(Optionality::Optional)
    }

    /// A bracket at the end of an operand.
    pub(super) fn close(&mut self, token: Token) -> ParseResult<()> {
        let after = self.tokens.following(ACCESS.with(OPERATORS));
        self.tokens.take(token, after).map(|_| ())
    }

    pub(super) fn word(&mut self) -> ParseResult<Arc<str>> {
        let lexeme = self.tokens.lexeme(self.tokens.at);
        self.tokens.take(Token::Ident, Set::NONE)?;
        Ok(self.tokens.source.text(lexeme.start, lexeme.end).into())
    }

    /// A name, perhaps in backquotes.
    pub(super) fn name(&mut self, follow: Set) -> ParseResult<Option<Arc<str>>> {
        self.tokens
            .enter(GrammarRule::EscapeIdent, Follow::OrOuter(follow))?;
        let result = self.tokens.sync(NAMES).and_then(|()| {
            let lexeme = self.tokens.lexeme(self.tokens.at);
            let quote = u32::from(lexeme.token == Token::EscapedIdent);
            if !NAMES.has(lexeme.token) {
                return Err(ParseStop::Failed(ParseFailure::NoAlternative(self.tokens.at)));
            }
            self.tokens.take(lexeme.token, Set::NONE)?;
            Ok(self
                .tokens
                .source
                .text(lexeme.start + quote, lexeme.end - quote)
                .into())
        });
        self.tokens.leave(GrammarRule::EscapeIdent, result)
    }

    /// The rest of a call after its bracket.
    pub(super) fn arguments(&mut self) -> ParseResult<Vec<Id>> {
        self.tokens.sync(EXPR.with(Set::of(&[Token::RightParen])))?;
        let mut args = Vec::new();
        if EXPR.has(self.tokens.la()) {
            self.tokens
                .enter(GrammarRule::ExprList, Follow::Only(Set::of(&[Token::RightParen])))?;
            args.push(self.expr(Follow::OrOuter(Set::of(&[Token::Comma])))?);
            while self.tokens.la() == Token::Comma {
                self.tokens.take(Token::Comma, Set::NONE)?;
                args.push(self.expr(Follow::OrOuter(Set::of(&[Token::Comma])))?);
            }
            self.tokens.leave(GrammarRule::ExprList, Ok(()))?;
        }
        self.close(Token::RightParen)?;
        Ok(args)
    }
}

/// Shows the children of a node.
pub(crate) fn each_child(kind: &Kind, mut show: impl FnMut(Id)) {
    match kind {
        Kind::Broken | Kind::Literal(_) | Kind::Ident(_) => {}
        Kind::Select { operand, .. } => show(*operand),
        Kind::Call { target, args, .. } => target.iter().chain(args).for_each(|id| show(*id)),
        Kind::List { items, .. } => items.iter().for_each(|id| show(*id)),
        Kind::Map(entries) => entries.iter().for_each(|entry| {
            show(entry.key);
            show(entry.value);
        }),
        Kind::Struct { fields, .. } => fields.iter().for_each(|field| show(field.value)),
        Kind::Comprehension(it) => [it.range, it.init, it.condition, it.step, it.result]
            .into_iter()
            .for_each(show),
    }
}
