//! Splits Rust source into identifiers, string literals and comments, each with its line.

/// One piece of a source file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) line: usize,
    pub(crate) role: Role,
    pub(crate) text: String,
}

/// What a piece of source is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Identifier,
    /// A string literal: a log message, an error, data.
    Text,
    /// A doc comment (clap shows them as help) or a line of Markdown.
    Prose,
    /// A plain comment.
    Comment,
}

/// Reads all of `source`. It does not fail: what is not understood is skipped.
pub(crate) fn read_fragments(source: &str) -> Vec<Fragment> {
    let mut reader = Reader {
        rest: source,
        line: 1,
        fragments: Vec::new(),
    };
    while !reader.rest.is_empty() {
        reader.read_next();
    }
    reader.fragments
}

/// The source without comments and the contents of literals. Lines stay where they are.
pub(crate) fn code_only(source: &str) -> String {
    let mut reader = Reader {
        rest: source,
        line: 1,
        fragments: Vec::new(),
    };
    let mut code = String::with_capacity(source.len());
    while !reader.rest.is_empty() {
        let before = reader.rest;
        let known = reader.fragments.len();
        reader.read_next();
        let taken = &before[..before.len() - reader.rest.len()];
        let is_code = match reader.fragments.get(known) {
            Some(fragment) => fragment.role == Role::Identifier,
            None => !taken.starts_with('\''),
        };
        if is_code {
            code.push_str(taken);
        } else if taken == "'" {
            // Of a lifetime.
            code.push_str(taken);
        } else {
            code.extend(taken.chars().filter(|letter| *letter == '\n'));
        }
    }
    code
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    fragments: Vec<Fragment>,
}

impl Reader<'_> {
    fn read_next(&mut self) {
        let rest = self.rest;
        let first = rest.chars().next().expect("the caller looked");
        if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            let is_doc = rest.starts_with("///") || rest.starts_with("//!");
            let role = if is_doc { Role::Prose } else { Role::Comment };
            self.take(end, Some(role));
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").map_or(rest.len(), |end| end + 2);
            self.take(end, Some(Role::Comment));
        } else if let Some(end) = raw_string_end(rest) {
            self.take(end, Some(Role::Text));
        } else if first == '"' {
            self.take(string_end(rest), Some(Role::Text));
        } else if first == '\'' {
            self.take(character_end(rest), None);
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest
                .find(|character: char| !character.is_ascii_alphanumeric() && character != '_')
                .unwrap_or(rest.len());
            self.take(end, Some(Role::Identifier));
        } else {
            self.take(first.len_utf8(), None);
        }
    }

    fn take(&mut self, length: usize, role: Option<Role>) {
        let (text, rest) = self.rest.split_at(length);
        if let Some(role) = role {
            for (number, part) in (self.line..).zip(text.split('\n')) {
                self.fragments.push(Fragment {
                    line: number,
                    role,
                    text: part.to_owned(),
                });
            }
        }
        self.line += text.matches('\n').count();
        self.rest = rest;
    }
}

/// Where `r"..."`, `r#"..."#` or their byte forms end, if one starts here.
fn raw_string_end(rest: &str) -> Option<usize> {
    let after_prefix = ["br", "cr", "r"]
        .iter()
        .find_map(|prefix| rest.strip_prefix(prefix))?;
    let hashes = after_prefix.len() - after_prefix.trim_start_matches('#').len();
    let body = after_prefix[hashes..].strip_prefix('"')?;
    let closing = format!("\"{}", "#".repeat(hashes));
    let start = rest.len() - body.len();
    Some(
        body.find(&closing)
            .map_or(rest.len(), |end| start + end + closing.len()),
    )
}

fn string_end(rest: &str) -> usize {
    let mut is_escaped = false;
    for (position, character) in rest.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return position + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A character literal, or only the quote of a lifetime.
fn character_end(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => {
            let _escaped = characters.next();
            rest[3..].find('\'').map_or(1, |end| end + 4)
        }
        Some((position, character)) => {
            let end = position + character.len_utf8();
            if rest[end..].starts_with('\'') { end + 1 } else { 1 }
        }
        None => 1,
    }
}
