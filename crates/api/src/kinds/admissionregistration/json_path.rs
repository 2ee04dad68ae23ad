//! Parser of JSONPath templates (`spec.validations[0].expression`) that fails with the messages of client-go.
// upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go Parser

use crate::go;

// upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go Parse
pub(super) fn parse_json_path(path: &str) -> Result<(), String> {
    parse_action(path)
}

/// Parses what is between braces, repeatedly.
// upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go parseAction
fn parse_action(text: &str) -> Result<(), String> {
    let whole = format!("{{{text}}}");
    let mut parser = Parser { rest: &whole };
    while let Some(start) = parser.rest.find('{') {
        parser.rest = &parser.rest[start + 1..];
        parser.parse_action_content()?;
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

    /// Parses up to and including the closing brace.
    // upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go parseInsideAction
    fn parse_action_content(&mut self) -> Result<(), String> {
        let mut descends = false;
        loop {
            if self.skip("}") {
                return Ok(());
            }
            if self.skip("[?(") {
                self.parse_filter()?;
                descends = false;
            } else if self.rest.starts_with("..") {
                if descends {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                self.skip("..");
                descends = !self.rest.starts_with(is_word);
                if !descends {
                    self.parse_field();
                }
            } else {
                descends = self.parse_segment()? && descends;
            }
        }
    }

    /// Parses one segment. Returns whether it was only skipped.
    fn parse_segment(&mut self) -> Result<bool, String> {
        let before = self.rest;
        match self.next() {
            None | Some('\r' | '\n') => return Err("unclosed action".to_owned()),
            Some(' ' | '@' | '$') => return Ok(true),
            Some('[') => self.parse_array()?,
            Some(quote @ ('"' | '\'')) => self.parse_quote(quote)?,
            Some('.') => self.parse_field(),
            Some(c) if matches!(c, '+' | '-') || c.is_numeric() => {
                self.rest = before;
                self.parse_numeric()?;
            }
            Some(c) if is_word(c) => {
                self.rest = self.rest.trim_start_matches(|c| !is_terminator(c));
            }
            Some(c) => {
                let character = if go::is_print(c) {
                    format!(" '{c}'")
                } else {
                    String::new()
                };
                let code = u32::from(c);
                return Err(format!(
                    "unrecognized character in action: U+{code:04X}{character}"
                ));
            }
        }
        Ok(false)
    }

    // upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go parseField
    fn parse_field(&mut self) {
        while let Some(c) = self.rest.chars().next() {
            if c == '\\' {
                self.next();
            } else if is_terminator(c) {
                return;
            }
            self.next();
        }
    }

    fn parse_numeric(&mut self) -> Result<(), String> {
        let text = self.rest;
        let signed = text.strip_prefix(['+', '-']).unwrap_or(text);
        self.rest = signed.trim_start_matches(|c: char| c == '.' || c.is_numeric());
        let number = &text[..text.len() - self.rest.len()];
        match number.parse::<f64>() {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("cannot parse number {number}")),
        }
    }

    /// The text before `end`; consumes `end`.
    fn until(&mut self, end: char) -> Option<&'t str> {
        let (text, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(text).filter(|text| !text.contains('\n'))
    }

    // upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go parseArray
    fn parse_array(&mut self) -> Result<(), String> {
        let text = self.until(']').ok_or("unterminated array")?;
        if text.contains(',') {
            let mut parts = text.split(',');
            return parts.try_for_each(|part| parse_action(&format!("[{}]", part.trim_matches(' '))));
        }
        let key = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        if let Some(key) = key.filter(|key| !key.contains('\'')) {
            return parse_action(&format!(".{key}"));
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

    // upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go parseFilter
    fn parse_filter(&mut self) -> Result<(), String> {
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
            return parse_action(text);
        }
        parse_action(left)?;
        parse_action(right)
    }

    // upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go parseQuote
    fn parse_quote(&mut self, quote: char) -> Result<(), String> {
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
// upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go isTerminator
fn is_terminator(c: char) -> bool {
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
        fn parses_any_text_without_panic(text in "[a.,:0?()@'\"{}\\[\\]\\\\ =+\u{e9}-]{0,16}") {
            let _ = parse_json_path(&text);
        }
    }

    #[test]
    fn accepts_valid_paths() {
        for path in [
            "spec.validations[0].expression",
            ".spec.containers[*].name",
            ".items[?(@.a=='x')].b",
            ".a['b','c']",
            "..a",
            ".a[0:2]",
        ] {
            assert_eq!(parse_json_path(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn reports_messages_of_client_go() {
        for (path, messages) in [
            (".a[", "unterminated array"),
            (".a[b]", "invalid array index b"),
            ("#", "unrecognized character in action: U+0023 '#'"),
            (".a[?(@.b", "unterminated filter"),
            ("'a", "unterminated quoted string"),
            ("....a", "invalid multiple recursive descent"),
        ] {
            assert_eq!(parse_json_path(path), Err(messages.to_owned()), "{path}");
        }
    }
}
