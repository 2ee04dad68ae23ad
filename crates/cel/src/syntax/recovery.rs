//! Error recovery of the parser.
//!
//! Clients see every mistake in the messages of the parser that upstream generates from its grammar, so this one makes
//! the same repairs: it drops a token that should not be there, assumes one that is missing, or skips to something that
//! can follow.

// upstream: vendor/github.com/google/cel-go/parser/parser.go Recover, RecoverInline, SyntaxError

use super::{
    lexer::{Lexeme, Unknown},
    token::{Set, Token},
};
use crate::source::{Issue, Source};

/// The deepest that one rule may stand in itself.
pub(super) const MAX_RECURSION_DEPTH: u32 = 250;
const MAX_REPORTS: u32 = 100;
const MAX_RECOVERIES: u32 = 30;
const MAX_SKIPPED: u32 = 256;

/// Why a rule could not be read to its end.
#[derive(Debug)]
pub(super) enum ParseStop {
    /// The rule failed; what called it continues.
    Failed(ParseFailure),
    /// Nothing continues.
    Halt,
}

/// How a rule failed.
#[derive(Debug)]
pub(super) enum ParseFailure {
    /// Another token was expected at the current location.
    Mismatch(Set),
    /// No alternative begins with the tokens from the current location up to this one.
    NoAlternative(usize),
}

/// Where in the grammar a failure is recovered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum GrammarRule {
    Start,
    Expr,
    Relation,
    Calc,
    Unary,
    Member,
    Primary,
    ExprList,
    ListInit,
    FieldInit,
    OptField,
    MapInit,
    EscapeIdent,
    OptExpr,
    Literal,
}

/// What can follow a rule where it is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Follow {
    /// These tokens.
    Only(Set),
    /// These tokens, and what can follow the rule around it, which may end with it.
    OrOuter(Set),
}

/// The tokens, and the state of recovery.
pub(super) struct Tokens<'s> {
    pub(super) source: &'s Source,
    pub(super) lexemes: Vec<Lexeme>,
    /// The current location.
    pub(super) at: usize,
    pub(super) issues: Vec<Issue>,
    /// What is no token.
    unknown: &'s [Unknown],
    /// What can follow each rule that is being read.
    follows: Vec<Follow>,
    depths: [u32; 15],
    recovering: bool,
    last_failure: Option<usize>,
    failed_in: u32,
    reports: u32,
    recoveries: u32,
}

impl Follow {
    pub(super) fn with(self, more: Set) -> Self {
        match self {
            Follow::Only(tokens) => Follow::Only(tokens.with(more)),
            Follow::OrOuter(tokens) => Follow::OrOuter(tokens.with(more)),
        }
    }

    fn tokens(self) -> Set {
        match self {
            Follow::Only(tokens) | Follow::OrOuter(tokens) => tokens,
        }
    }
}

impl<'s> Tokens<'s> {
    pub(super) fn new(
        source: &'s Source,
        lexemes: Vec<Lexeme>,
        unknown: &'s [Unknown],
    ) -> Result<Self, Vec<Issue>> {
        let mut tokens = Tokens {
            source,
            lexemes,
            at: 0,
            issues: Vec::new(),
            unknown,
            follows: Vec::new(),
            depths: [0; 15],
            recovering: false,
            last_failure: None,
            failed_in: 0,
            reports: 0,
            recoveries: 0,
        };
        for (start, end) in unknown {
            let text = source.text(*start, *end);
            if tokens
                .syntax(*start, &format!("token recognition error at: '{text}'"))
                .is_err()
            {
                return Err(tokens.issues);
            }
        }
        Ok(tokens)
    }

    /// The token so many positions ahead.
    pub(super) fn peek(&self, ahead: usize) -> Token {
        self.lexemes
            .get(self.at + ahead)
            .map_or(Token::Eof, |lexeme| lexeme.token)
    }

    pub(super) fn la(&self) -> Token {
        self.peek(0)
    }

    /// Where the current token stands.
    pub(super) fn offset(&self) -> u32 {
        self.lexeme(self.at).start
    }

    pub(super) fn lexeme(&self, at: usize) -> Lexeme {
        self.lexemes[at.min(self.lexemes.len() - 1)]
    }

    /// Begins a rule.
    pub(super) fn enter(&mut self, rule: GrammarRule, follow: Follow) -> Result<(), ParseStop> {
        self.follows.push(follow);
        let depth = &mut self.depths[rule as usize];
        *depth += 1;
        if *depth > MAX_RECURSION_DEPTH {
            self.halt(format!(
                "expression recursion limit exceeded: {MAX_RECURSION_DEPTH}"
            ))?;
        }
        Ok(())
    }

    /// Ends a rule. A failure of it is reported and got over; then there is nothing to give back.
    pub(super) fn leave<T>(
        &mut self,
        rule: GrammarRule,
        result: Result<T, ParseStop>,
    ) -> Result<Option<T>, ParseStop> {
        let result = match result {
            Ok(value) => Some(value),
            Err(ParseStop::Failed(failure)) => {
                self.report(&failure)?;
                self.recover(rule)?;
                None
            }
            Err(ParseStop::Halt) => return Err(ParseStop::Halt),
        };
        self.depths[rule as usize] -= 1;
        self.follows.pop();
        Ok(result)
    }

    /// Takes the current token if it is this one, or repairs. `after` is what can follow it.
    pub(super) fn take(&mut self, token: Token, after: Set) -> Result<u32, ParseStop> {
        let offset = self.offset();
        if self.la() == token {
            self.matched();
            return Ok(offset);
        }
        self.count_recovery()?;
        if self.peek(1) == token {
            self.unwanted(Set::of(&[token]))?;
            self.at += 1;
            let offset = self.offset();
            self.matched();
            return Ok(offset);
        }
        if after.has(self.la()) {
            if !self.recovering {
                self.recovering = true;
                let (offset, shown) = self.shown(self.at);
                self.syntax(offset, &format!("missing {} at {shown}", Set::of(&[token])))?;
            }
            return Ok(offset);
        }
        Err(ParseStop::Failed(ParseFailure::Mismatch(Set::of(&[token]))))
    }

    /// What can follow the current rule, through all that may end with it.
    pub(super) fn following(&self, first: Set) -> Set {
        let mut set = first;
        for follow in self.follows.iter().rev() {
            set = set.with(follow.tokens());
            if let Follow::Only(_) = follow {
                break;
            }
        }
        set
    }

    fn matched(&mut self) {
        self.recovering = false;
        self.last_failure = None;
        self.failed_in = 0;
        if self.la() != Token::Eof {
            self.at += 1;
        }
    }

    /// Looks whether the current token can stand here; one wrong token before a right one is dropped.
    pub(super) fn sync(&mut self, expected: Set) -> Result<(), ParseStop> {
        if self.recovering || expected.has(self.la()) {
            return Ok(());
        }
        if expected.has(self.peek(1)) {
            self.unwanted(expected)?;
            self.at += 1;
            self.recovering = false;
            return Ok(());
        }
        Err(ParseStop::Failed(ParseFailure::Mismatch(expected)))
    }

    /// The same between the rounds of a loop: all wrong tokens are dropped.
    pub(super) fn sync_loop(&mut self, expected: Set) -> Result<(), ParseStop> {
        if self.recovering || expected.has(self.la()) {
            return Ok(());
        }
        self.unwanted(expected)?;
        let until = expected.with(self.recovery_set());
        self.skip(until, None)
    }

    fn unwanted(&mut self, expected: Set) -> Result<(), ParseStop> {
        if self.recovering {
            return Ok(());
        }
        self.recovering = true;
        let (offset, shown) = self.shown(self.at);
        self.syntax(offset, &format!("extraneous input {shown} expecting {expected}"))
    }

    fn report(&mut self, failure: &ParseFailure) -> Result<(), ParseStop> {
        if self.recovering {
            return Ok(());
        }
        self.recovering = true;
        match failure {
            ParseFailure::Mismatch(expected) => {
                let (offset, shown) = self.shown(self.at);
                self.syntax(offset, &format!("mismatched input {shown} expecting {expected}"))
            }
            ParseFailure::NoAlternative(end) => {
                let offending = self.lexeme(*end);
                let text = if self.la() == Token::Eof {
                    "<EOF>".to_owned()
                } else {
                    self.source_text(self.offset(), offending.end)
                };
                let name = match text.strip_prefix(|_| true) {
                    Some(name @ ("true" | "false" | "null")) => Some(name),
                    _ => None,
                };
                let message = match name {
                    Some(name) => format!("mismatched input '{name}' expecting IDENTIFIER"),
                    None => format!("no viable alternative at input {}", quoted(&text)),
                };
                self.syntax(offending.start, &message)
            }
        }
    }

    /// A stretch of the source without what is no token.
    fn source_text(&self, start: u32, end: u32) -> String {
        let is_unknown = |at: u32| self.unknown.iter().any(|(from, to)| (*from..*to).contains(&at));
        let chars = (start..end).zip(&self.source.chars[start as usize..end as usize]);
        chars
            .filter(|(at, _)| !is_unknown(*at))
            .map(|(_, c)| *c)
            .collect()
    }

    fn recover(&mut self, rule: GrammarRule) -> Result<(), ParseStop> {
        self.count_recovery()?;
        let mut skipped = 0;
        let state = 1 << rule as u8;
        if self.last_failure == Some(self.at) && self.failed_in & state != 0 && self.la() != Token::Eof {
            self.at += 1;
            skipped = 1;
        }
        self.last_failure = Some(self.at);
        self.failed_in |= state;
        let set = self.recovery_set();
        self.skip(set, Some(skipped))
    }

    fn recovery_set(&self) -> Set {
        self.follows
            .iter()
            .fold(Set::NONE, |set, follow| set.with(follow.tokens()))
    }

    fn skip(&mut self, until: Set, limited: Option<u32>) -> Result<(), ParseStop> {
        let mut skipped = limited;
        while self.la() != Token::Eof && !until.has(self.la()) {
            if let Some(skipped) = &mut skipped {
                if *skipped >= MAX_SKIPPED {
                    return self.halt(format!(
                        "error recovery token lookahead limit exceeded: {MAX_SKIPPED}"
                    ));
                }
                *skipped += 1;
            }
            self.at += 1;
        }
        Ok(())
    }

    fn count_recovery(&mut self) -> Result<(), ParseStop> {
        if self.recoveries == MAX_RECOVERIES {
            let offset = self.offset();
            self.syntax(
                offset,
                &format!("error recovery attempt limit exceeded: {MAX_RECOVERIES}"),
            )?;
            return Err(ParseStop::Halt);
        }
        self.recoveries += 1;
        Ok(())
    }

    fn syntax(&mut self, offset: u32, message: &str) -> Result<(), ParseStop> {
        let full = self.reports >= MAX_REPORTS;
        let message = if full {
            format!("More than {MAX_REPORTS} syntax errors")
        } else {
            message.to_owned()
        };
        self.reports += 1;
        self.issue(Some(offset), format!("Syntax error: {message}"));
        if full { Err(ParseStop::Halt) } else { Ok(()) }
    }

    /// Something that ends reading.
    pub(super) fn halt(&mut self, message: String) -> Result<(), ParseStop> {
        self.issue(None, message);
        Err(ParseStop::Halt)
    }

    pub(super) fn issue(&mut self, offset: Option<u32>, message: String) {
        self.issues.push(Issue { offset, message });
    }

    fn shown(&self, at: usize) -> (u32, String) {
        let lexeme = self.lexeme(at);
        let text = match lexeme.token {
            Token::Eof => "<EOF>".to_owned(),
            _ => self.source.text(lexeme.start, lexeme.end),
        };
        (lexeme.start, quoted(&text))
    }
}

fn quoted(text: &str) -> String {
    format!(
        "'{}'",
        text.replace('\t', "\\t")
            .replace('\n', "\\n")
            .replace('\r', "\\r")
    )
}
