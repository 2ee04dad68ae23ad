//! Comma-separated records as Go's reader sees them: empty lines do not count, there are no comments, spaces
//! belong to their field, and a quoted field may hold commas, doubled quotes and line ends.

use super::token_file::TokenFileProblem;

/// The fields of a record, and the line it begins on, counted from 1.
pub(super) type CsvRecord = (usize, Vec<String>);

/// The records of a text.
pub(super) struct CsvReader<'t> {
    lines: std::str::SplitInclusive<'t, char>,
    /// The number of the line that `rest` is of.
    number: usize,
    /// What is not yet read of the line, with its end.
    rest: &'t str,
}

// --- CsvReader ---

impl<'t> CsvReader<'t> {
    /// `text` has line ends of one character; see [`unix_lines`].
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            lines: text.split_inclusive('\n'),
            number: 0,
            rest: "",
        }
    }

    /// The next record, or what is wrong with it and on which line.
    pub(super) fn next(&mut self) -> Result<Option<CsvRecord>, (usize, TokenFileProblem)> {
        while self.next_line() {
            if self.rest != "\n" {
                let first = self.number;
                let fields = self.fields().map_err(|problem| (self.number, problem))?;
                return Ok(Some((first, fields)));
            }
        }
        Ok(None)
    }

    fn next_line(&mut self) -> bool {
        let Some(line) = self.lines.next() else {
            return false;
        };
        self.number += 1;
        self.rest = line;
        true
    }

    fn fields(&mut self) -> Result<Vec<String>, TokenFileProblem> {
        let mut fields = Vec::new();
        loop {
            let field = match self.rest.strip_prefix('"') {
                Some(rest) => {
                    self.rest = rest;
                    self.quoted()?
                }
                None => self.plain()?,
            };
            fields.push(field);
            match self.rest.strip_prefix(',') {
                Some(rest) => self.rest = rest,
                None if self.rest.trim_end_matches('\n').is_empty() => return Ok(fields),
                None => return Err(TokenFileProblem::Quote),
            }
        }
    }

    fn plain(&mut self) -> Result<String, TokenFileProblem> {
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let (field, rest) = self.rest.split_at(end);
        if field.contains('"') {
            return Err(TokenFileProblem::BareQuote);
        }
        self.rest = rest;
        Ok(field.to_owned())
    }

    /// The field behind an opening quote, up to behind its closing one.
    fn quoted(&mut self) -> Result<String, TokenFileProblem> {
        let mut field = String::new();
        loop {
            let Some((part, rest)) = self.rest.split_once('"') else {
                field.push_str(self.rest);
                if !self.next_line() {
                    return Err(TokenFileProblem::Quote);
                }
                continue;
            };
            field.push_str(part);
            let Some(after) = rest.strip_prefix('"') else {
                self.rest = rest;
                return Ok(field);
            };
            field.push('"');
            self.rest = after;
        }
    }
}

/// The text with line ends of one character, and without a carriage return at its very end.
pub(super) fn unix_lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    text.strip_suffix('\r').map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<CsvRecord>, (usize, TokenFileProblem)> {
        let text = unix_lines(text);
        let mut records = CsvReader::new(&text);
        std::iter::from_fn(|| records.next().transpose()).collect()
    }

    fn fields(text: &str) -> Vec<Vec<String>> {
        let records = read(text).unwrap();
        records.into_iter().map(|(_, fields)| fields).collect()
    }

    #[test]
    fn keeps_fields_verbatim() {
        assert_eq!(fields("a,b c, d"), [["a", "b c", " d"]]);
        assert_eq!(fields("a,,\n"), [["a", "", ""]]);
        assert_eq!(fields("#a,b\n"), [["#a", "b"]]);
        assert_eq!(fields("a,b\r\nc,d\r"), [["a", "b"], ["c", "d"]]);
    }

    #[test]
    fn quoted_field_may_contain_commas_and_newlines() {
        assert_eq!(fields("\"a,\"\"b\"\"\",c\n"), [["a,\"b\"", "c"]]);
        assert_eq!(fields("\"a\nb\",c"), [["a\nb", "c"]]);
        assert_eq!(fields("a,\"\"\n"), [["a", ""]]);
    }

    #[test]
    fn skips_empty_lines_but_counts_them() {
        let records = read("\n\na,b\n\n \nc").unwrap();
        let lines: Vec<_> = records.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [3, 5, 6]);
        assert!(read("\n\n").unwrap().is_empty());
    }

    #[test]
    fn rejects_misplaced_quote_with_line() {
        assert_eq!(read("a,b\nc\"d,e"), Err((2, TokenFileProblem::BareQuote)));
        assert_eq!(read("a, \"b\""), Err((1, TokenFileProblem::BareQuote)));
        assert_eq!(read("\"a\"b,c"), Err((1, TokenFileProblem::Quote)));
        assert_eq!(read("x\n\"a\nb"), Err((3, TokenFileProblem::Quote)));
    }
}
