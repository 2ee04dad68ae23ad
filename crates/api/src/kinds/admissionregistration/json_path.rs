//! Whether a text is a path of the language of templates: `spec.validations[0].expression`.

use crate::go;

/// What is wrong with a path.
pub(super) fn judge(path: &str) -> Result<(), String> {
    action(path)
}

/// Judges what stands between braces, as often as there are some.
fn action(text: &str) -> Result<(), String> {
    let whole = format!("{{{text}}}");
    let mut parser = Parser { rest: &whole };
    while let Some(start) = parser.rest.find('{') {
        parser.rest = &parser.rest[start + 1..];
        parser.inside()?;
    }
    Ok(())
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn skip(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Reads to the closing brace, and past it.
    fn inside(&mut self) -> Result<(), String> {
        let mut descends = false;
        loop {
            if self.skip("}") {
                return Ok(());
            }
            if self.skip("[?(") {
                self.filter()?;
                descends = false;
            } else if self.rest.starts_with("..") {
                if descends {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                self.skip("..");
                descends = !self.rest.starts_with(is_word);
                if !descends {
                    self.field();
                }
            } else {
                descends = self.part()? && descends;
            }
        }
    }

    /// Reads one part. Says whether it was only passed over.
    fn part(&mut self) -> Result<bool, String> {
        let before = self.rest;
        match self.next() {
            None | Some('\r' | '\n') => return Err("unclosed action".to_owned()),
            Some(' ' | '@' | '$') => return Ok(true),
            Some('[') => self.array()?,
            Some(quote @ ('"' | '\'')) => self.quoted(quote)?,
            Some('.') => self.field(),
            Some(c) if matches!(c, '+' | '-') || c.is_numeric() => {
                self.rest = before;
                self.number()?;
            }
            Some(c) if is_word(c) => {
                self.rest = self.rest.trim_start_matches(|c| !ends(c));
            }
            Some(c) => {
                let shown = if go::is_print(c) {
                    format!(" '{c}'")
                } else {
                    String::new()
                };
                let code = u32::from(c);
                return Err(format!("unrecognized character in action: U+{code:04X}{shown}"));
            }
        }
        Ok(false)
    }

    fn field(&mut self) {
        while let Some(c) = self.rest.chars().next() {
            if c == '\\' {
                self.next();
            } else if ends(c) {
                return;
            }
            self.next();
        }
    }

    fn number(&mut self) -> Result<(), String> {
        let text = self.rest;
        let signed = text.strip_prefix(['+', '-']).unwrap_or(text);
        self.rest = signed.trim_start_matches(|c: char| c == '.' || c.is_numeric());
        let number = &text[..text.len() - self.rest.len()];
        match number.parse::<f64>() {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("cannot parse number {number}")),
        }
    }

    /// What stands before `end`, which is read, too.
    fn until(&mut self, end: char) -> Option<&'t str> {
        let (text, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(text).filter(|text| !text.contains('\n'))
    }

    fn array(&mut self) -> Result<(), String> {
        let text = self.until(']').ok_or("unterminated array")?;
        if text.contains(',') {
            let mut parts = text.split(',');
            return parts.try_for_each(|part| action(&format!("[{}]", part.trim_matches(' '))));
        }
        let key = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        if let Some(key) = key.filter(|key| !key.contains('\'')) {
            return action(&format!(".{key}"));
        }
        let bounds: Vec<_> = if text == "*" {
            Vec::new()
        } else {
            text.split(':').collect()
        };
        let is_bound = |bound: &&str| {
            let digits = bound.strip_prefix('-').unwrap_or(bound);
            digits.bytes().all(|b| b.is_ascii_digit())
        };
        if bounds.len() > 3 || !bounds.iter().all(is_bound) {
            return Err(format!("invalid array index {text}"));
        }
        let mut numbers = bounds.iter().filter(|bound| !bound.is_empty());
        match numbers.find(|bound| bound.parse::<i64>().is_err()) {
            Some(bound) => Err(format!("array index {bound} is not a number")),
            None => Ok(()),
        }
    }

    fn filter(&mut self) -> Result<(), String> {
        let whole = self.rest;
        let mut quote = None;
        let mut closed = false;
        let mut last = '(';
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated filter".to_owned()),
                Some(c @ ('"' | '\'')) if quote.is_none() => quote = Some(c),
                Some(c) if quote == Some(c) && last != '\\' => closed = true,
                Some(')') if quote.is_some() == closed => break,
                Some(c) => last = c,
            }
        }
        let text = &whole[..whole.len() - self.rest.len() - 1];
        if !self.skip("]") {
            return Err("unclosed array expect ]".to_owned());
        }
        let compares = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let left = text.find(compares).map_or("", |end| &text[..end]);
        let right = text[left.len()..].trim_start_matches(compares);
        if left.is_empty() || right.is_empty() {
            return action(text);
        }
        action(left)?;
        action(right)
    }

    fn quoted(&mut self, quote: char) -> Result<(), String> {
        let mut last = quote;
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated quoted string".to_owned()),
                Some(c) if c == quote && last != '\\' => return Ok(()),
                Some(c) => last = c,
            }
        }
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Whether a character ends a name.
fn ends(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "[a.,:0?()@'\"{}\\[\\]\\\\ =+\u{e9}-]{0,16}") {
            let _ = judge(&text);
        }
    }

    #[test]
    fn paths_are_taken() {
        for path in [
            "spec.validations[0].expression",
            ".spec.containers[*].name",
            ".items[?(@.a=='x')].b",
            ".a['b','c']",
            "..a",
            ".a[0:2]",
        ] {
            assert_eq!(judge(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (path, messages) in [
            (".a[", "unterminated array"),
            (".a[b]", "invalid array index b"),
            ("#", "unrecognized character in action: U+0023 '#'"),
            (".a[?(@.b", "unterminated filter"),
            ("'a", "unterminated quoted string"),
            ("....a", "invalid multiple recursive descent"),
        ] {
            assert_eq!(judge(path), Err(messages.to_owned()), "{path}");
        }
    }
}
