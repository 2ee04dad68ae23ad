//! Whether a text is a regular expression of the Go library, and its words if it is not.

use std::collections::{HashMap, HashSet};

/// What a place in an expression may repeat.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing stands before.
    Nothing,
    /// Something that can be repeated.
    Something,
    /// A repetition that begins at this byte.
    Repetition(usize),
}

/// How often parts of a group are repeated.
#[derive(Clone, Copy)]
struct Repeats {
    /// The most of any part.
    most: u32,
    /// Of the part that was read last.
    last: u32,
}

impl Repeats {
    const ONE: Repeats = Repeats { most: 1, last: 1 };
}

const MAX_REPEAT: u32 = 1000;

/// What is wrong with an expression.
pub(crate) fn msg(pattern: &str) -> Option<String> {
    weigh(pattern).err()
}

/// About how large an expression is when it is compiled, or what is wrong with it.
pub(super) fn weigh(pattern: &str) -> Result<usize, String> {
    let mut parser = Parser {
        text: pattern,
        at: 0,
        names: HashSet::new(),
        classes: HashMap::new(),
        levels: Vec::new(),
        repeats: Repeats::ONE,
        weight: 0,
        no_more_names: false,
    };
    match parser.run() {
        Ok(()) => Ok(parser.weight),
        Err((what, which)) => Err(format!("error parsing regexp: {what}: `{which}`")),
    }
}

type Fault<'p> = (&'static str, &'p str);

struct Parser<'p> {
    text: &'p str,
    /// How far it is read, in bytes.
    at: usize,
    names: HashSet<&'p str>,
    /// The Unicode classes it names, and whether they exist.
    classes: HashMap<&'p str, bool>,
    /// The repeats of the groups that are open, the outermost first.
    levels: Vec<Repeats>,
    /// The repeats of the group at hand.
    repeats: Repeats,
    /// About how large the compiled expression is.
    weight: usize,
    /// Whether no `:]` follows.
    no_more_names: bool,
}

impl<'p> Parser<'p> {
    fn rest(&self) -> &'p str {
        &self.text[self.at..]
    }

    fn run(&mut self) -> Result<(), Fault<'p>> {
        // What stood before each group that is open; the group itself can be repeated.
        let mut open = 0usize;
        let mut before = Before::Nothing;
        while let Some(c) = self.rest().chars().next() {
            let start = self.at;
            self.at += c.len_utf8();
            self.weight += 1;
            if !matches!(c, '*' | '+' | '?' | '{' | ')') {
                self.repeats.last = 1;
            }
            match c {
                '(' => {
                    self.group(start)?;
                    open += 1;
                    before = Before::Nothing;
                    // Flags that hold from here on open no group.
                    if self.text[start..self.at].ends_with(')') {
                        open -= 1;
                    } else {
                        self.levels.push(self.repeats);
                        self.repeats = Repeats::ONE;
                    }
                }
                ')' => {
                    open = open.checked_sub(1).ok_or(("unexpected )", self.text))?;
                    let inside = self.repeats.most;
                    self.repeats = self.levels.pop().unwrap_or(Repeats::ONE);
                    self.repeats.last = inside;
                    self.repeats.most = self.repeats.most.max(inside);
                    before = Before::Something;
                }
                '|' => before = Before::Nothing,
                '*' | '+' | '?' => before = self.repetition(start, before)?,
                '{' if self.counts(start)? => before = self.repetition(start, before)?,
                '[' => {
                    self.class(start)?;
                    before = Before::Something;
                }
                '\\' => {
                    self.escape(start, false)?;
                    before = Before::Something;
                }
                _ => before = Before::Something,
            }
        }
        if open > 0 {
            return Err(("missing closing )", self.text));
        }
        Ok(())
    }

    /// A `*`, `+`, `?` or `{...}` that begins at `start` and is read; a `?` after it makes it lazy.
    fn repetition(&mut self, start: usize, before: Before) -> Result<Before, Fault<'p>> {
        if self.rest().starts_with('?') {
            self.at += 1;
        }
        match before {
            Before::Nothing => {
                let shown = &self.text[start..self.at];
                Err(("missing argument to repetition operator", shown))
            }
            Before::Repetition(first) => {
                Err(("invalid nested repetition operator", &self.text[first..self.at]))
            }
            Before::Something => Ok(Before::Repetition(start)),
        }
    }

    /// Reads counts if there are some; braces without counts are plain characters.
    fn counts(&mut self, start: usize) -> Result<bool, Fault<'p>> {
        // Counts are short: nothing far behind is looked for.
        let count = |b: &u8| b.is_ascii_digit() || *b == b',';
        let digits = self.rest().bytes().take_while(count).count();
        let Some(inner) = self.rest()[digits..]
            .starts_with('}')
            .then(|| &self.rest()[..digits])
        else {
            return Ok(false);
        };
        let (low, high) = inner.split_once(',').unwrap_or((inner, inner));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(low) || !(high.is_empty() || is_number(high)) {
            return Ok(false);
        }
        self.at += inner.len() + 1;
        let number = |text: &str| text.parse().unwrap_or(u32::MAX);
        let least = number(low);
        let most = if high.is_empty() {
            number(low)
        } else {
            number(high)
        };
        if least > MAX_REPEAT || most > MAX_REPEAT || least > most {
            return Err(("invalid repeat count", &self.text[start..self.at]));
        }
        // upstream: regexp/syntax repeatIsValid; repeats within repeats multiply.
        let repeats = self.repeats.last.saturating_mul(most.max(1));
        if repeats > MAX_REPEAT {
            return Err(("invalid repeat count", &self.text[start..self.at]));
        }
        self.repeats.last = repeats;
        self.repeats.most = self.repeats.most.max(repeats);
        self.weight = self
            .weight
            .saturating_add(usize::try_from(repeats).unwrap_or(usize::MAX));
        Ok(true)
    }

    /// What may follow the `(` at `start`.
    fn group(&mut self, start: usize) -> Result<(), Fault<'p>> {
        let Some(rest) = self.rest().strip_prefix('?') else {
            return Ok(());
        };
        if let Some(name) = rest.strip_prefix("P<").or_else(|| rest.strip_prefix('<')) {
            if name.starts_with(['=', '!']) && rest.starts_with('<') {
                return Err(("invalid or unsupported Perl syntax", &self.text[start..start + 4]));
            }
            let Some((word, _)) = name.split_once('>') else {
                return Err(("invalid named capture", &self.text[start..]));
            };
            let end = self.text.len() - name.len() + word.len() + 1;
            let shown = &self.text[start..end];
            let fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if word.is_empty() || !word.chars().all(fine) {
                return Err(("invalid named capture", shown));
            }
            if !self.names.insert(word) {
                return Err(("duplicate capture group name", word));
            }
            self.at = end;
            return Ok(());
        }
        self.at += 1;
        let mut negated = false;
        let mut said = false;
        while let Some(c) = self.rest().chars().next() {
            self.at += c.len_utf8();
            match c {
                'i' | 'm' | 's' | 'U' => said = true,
                '-' if !negated => (negated, said) = (true, false),
                ':' | ')' if !negated || said => return Ok(()),
                _ => return Err(("invalid or unsupported Perl syntax", &self.text[start..self.at])),
            }
        }
        Err(("missing closing )", self.text))
    }

    /// A class in brackets, the first of which is at `start` and read.
    fn class(&mut self, start: usize) -> Result<(), Fault<'p>> {
        if self.rest().starts_with('^') {
            self.at += 1;
        }
        let mut first = true;
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else {
                return Err(("missing closing ]", &self.text[start..]));
            };
            if c == ']' && !first {
                self.at += 1;
                return Ok(());
            }
            // A dash is a character only at the ends.
            if c == '-' && !first && !rest.starts_with("-]") && rest.len() > 1 {
                let next = rest[1..].chars().next().map_or(0, char::len_utf8);
                return Err(("invalid character class range", &rest[..=next]));
            }
            first = false;
            if let Some(inner) = rest.strip_prefix("[:")
                && let Some(end) = self.end_of_name(inner)
            {
                let whole = &rest[..end + 4];
                if !is_named_class(&inner[..end]) {
                    return Err(("invalid character class range", whole));
                }
                self.at += whole.len();
                continue;
            }
            let range = self.at;
            let Some(low) = self.class_character()? else {
                continue;
            };
            if self.rest().starts_with('-') && !self.rest().starts_with("-]") && self.rest().len() > 1 {
                self.at += 1;
                let high = self.class_character()?;
                if high.is_none_or(|high| high < low) {
                    return Err(("invalid character class range", &self.text[range..self.at]));
                }
            }
        }
    }

    /// Where the `:]` stands that ends the name of a class. An expression without one is searched once.
    fn end_of_name(&mut self, inner: &str) -> Option<usize> {
        if self.no_more_names {
            return None;
        }
        let end = inner.find(":]");
        self.no_more_names = end.is_none();
        end
    }

    /// A character of a class; `None` if it is a class itself.
    fn class_character(&mut self) -> Result<Option<char>, Fault<'p>> {
        let start = self.at;
        let Some(c) = self.rest().chars().next() else {
            return Ok(None);
        };
        self.at += c.len_utf8();
        if c == '\\' {
            self.escape(start, true)
        } else {
            Ok(Some(c))
        }
    }

    /// An escape whose `\` is at `start` and read: the character it stands for, if it stands for one.
    fn escape(&mut self, start: usize, in_class: bool) -> Result<Option<char>, Fault<'p>> {
        let Some(c) = self.rest().chars().next() else {
            return Err(("trailing backslash at end of expression", ""));
        };
        self.at += c.len_utf8();
        let invalid = ("invalid escape sequence", &self.text[start..self.at]);
        match c {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => Ok(None),
            'A' | 'b' | 'B' | 'z' | 'C' if !in_class => Ok(None),
            'Q' if !in_class => {
                let end = self
                    .rest()
                    .find("\\E")
                    .map_or(self.text.len(), |end| self.at + end + 2);
                self.at = end;
                Ok(None)
            }
            'p' | 'P' => self.unicode_class(start).map(|()| None),
            'a' | 'f' | 't' | 'n' | 'r' | 'v' => Ok(Some(c)),
            'x' => self.hex(start).map(Some),
            '0' => Ok(Some('\0')),
            '1'..='7' if self.rest().starts_with(|c: char| matches!(c, '0'..='7')) => Ok(Some(c)),
            _ if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok(Some(c)),
            _ => Err(invalid),
        }
    }

    fn hex(&mut self, start: usize) -> Result<char, Fault<'p>> {
        let rest = self.rest();
        let digits = match rest.strip_prefix('{') {
            Some(inner) => inner
                .split_once('}')
                .map(|(digits, _)| (digits, digits.len() + 2)),
            None => rest.get(..2).map(|digits| (digits, 2)),
        };
        let next = rest.chars().next().map_or(0, char::len_utf8);
        let invalid = ("invalid escape sequence", &self.text[start..self.at + next]);
        let Some((digits, length)) = digits else {
            return Err(invalid);
        };
        match u32::from_str_radix(digits, 16).ok().and_then(char::from_u32) {
            Some(c) => {
                self.at += length;
                Ok(c)
            }
            None => Err(invalid),
        }
    }

    fn unicode_class(&mut self, start: usize) -> Result<(), Fault<'p>> {
        let rest = self.rest();
        let length = match rest.strip_prefix('{') {
            Some(inner) => inner.find('}').map(|end| end + 2),
            None => rest.chars().next().map(char::len_utf8),
        };
        let Some(length) = length else {
            return Err(("invalid character class range", &self.text[start..]));
        };
        self.at += length;
        let class = &self.text[start..self.at];
        let exists = *self
            .classes
            .entry(class)
            .or_insert_with(|| k3_cel::regular_expression(class).is_ok());
        // A class of letters is many ranges.
        self.weight += 64;
        if !exists {
            return Err(("invalid character class range", class));
        }
        Ok(())
    }
}

fn is_named_class(name: &str) -> bool {
    let name = name.strip_prefix('^').unwrap_or(name);
    matches!(
        name,
        "alnum"
            | "alpha"
            | "ascii"
            | "blank"
            | "cntrl"
            | "digit"
            | "graph"
            | "lower"
            | "print"
            | "punct"
            | "space"
            | "upper"
            | "word"
            | "xdigit"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "[\\[\\](){}?*+|^$\\\\:<=!P,a0x-\u{e9}]{0,12}") {
            let _ = msg(&text);
        }
    }

    #[test]
    fn expressions_are_taken() {
        for pattern in [
            "",
            "^[a-z]([-a-z0-9]*[a-z0-9])?$",
            r"^\d{1,3}(\.\d+)*$",
            "(?i)a|b{x}|(?:c)+?",
            "(?P<n>a)[[:alpha:]]",
            "[]a-]",
            r"\p{Greek}\x{10FFFF}\Q(\E",
            "a{,2}",
        ] {
            assert_eq!(msg(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_in_the_words_of_the_library() {
        for (pattern, messages) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            (r"\q", r"invalid escape sequence: `\q`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(a{100}b{20}){11}", "invalid repeat count: `{11}`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?P<a", "invalid named capture: `(?P<a`"),
        ] {
            assert_eq!(
                msg(pattern),
                Some(format!("error parsing regexp: {messages}")),
                "{pattern}"
            );
        }
    }
}
