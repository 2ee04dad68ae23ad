//! Environment files for `fileKeyRef`, which init containers write for later containers (KEP-3721).
//!
//! The format is a subset of shell syntax: `NAME='value'`, where the value may span lines, and comments that start with `#`.

const BLANKS: [char; 2] = [' ', '\t'];

/// Why an environment file is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ParseEnvError {
    /// A line is not `NAME='value'`.
    #[error("invalid environment variable format at line {line}: {reason}")]
    InvalidLine { line: usize, reason: &'static str },
    /// The value that starts in this line does not end.
    #[error("invalid environment variable format starting at line {line}: unclosed single quote")]
    UnclosedQuote { line: usize },
}

/// The value of a variable in a file. An empty value and a missing variable are both the empty string, as upstream.
// upstream: pkg/kubelet/util/env/env_util.go ParseEnv
pub(super) fn parse_env(content: &str, key: &str) -> Result<String, ParseEnvError> {
    let mut lines = content
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .enumerate();
    while let Some((index, line)) = lines.next() {
        let format_error = |reason: &'static str| {
            Err(ParseEnvError::InvalidLine {
                line: index + 1,
                reason,
            })
        };
        let line = line.trim_start_matches(BLANKS);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            return format_error("missing '='");
        };
        if name.trim_end_matches(BLANKS).is_empty() {
            return format_error("empty variable name");
        }
        if name.ends_with(BLANKS) {
            return format_error("whitespace before '=' is not allowed");
        }
        if value.starts_with(BLANKS) {
            // As in a shell: the variable is empty, and the rest of the line is ignored.
            if name == key {
                return Ok(String::new());
            }
            continue;
        }
        let Some(mut remainder) = value.strip_prefix('\'') else {
            return format_error("value must be enclosed in single quotes");
        };
        let mut value = String::new();
        let mut last_index = index;
        let after_quote = loop {
            if let Some((last_part, after_quote)) = remainder.split_once('\'') {
                value.push_str(last_part);
                break after_quote;
            }
            value.push_str(remainder);
            value.push('\n');
            match lines.next() {
                Some((next_index, line)) => {
                    last_index = next_index;
                    remainder = line;
                }
                None => return Err(ParseEnvError::UnclosedQuote { line: index + 1 }),
            }
        };
        let after_quote = after_quote.trim_start_matches(BLANKS);
        if !after_quote.is_empty() && !after_quote.starts_with('#') {
            return Err(ParseEnvError::InvalidLine {
                line: last_index + 1,
                reason: "unexpected content after closing quote",
            });
        }
        if name == key {
            return Ok(value);
        }
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_values_comments_and_multiple_lines() {
        let text = "# first\n\n  A='1'\nB='two\nlines' # comment\nC= 'no'\nD='x=y'\n";
        for (key, expected) in [
            ("A", "1"),
            ("B", "two\nlines"),
            ("C", ""),
            ("D", "x=y"),
            ("E", ""),
        ] {
            assert_eq!(parse_env(text, key).as_deref(), Ok(expected), "{key}");
        }
    }

    #[test]
    fn rejects_invalid_lines() {
        for (text, reason) in [
            ("A", "at line 1: missing '='"),
            ("\nA ='1'", "at line 2: whitespace before '=' is not allowed"),
            ("='1'", "at line 1: empty variable name"),
            ("A=1", "at line 1: value must be enclosed in single quotes"),
            ("A='1", "starting at line 1: unclosed single quote"),
            ("A='1' b", "at line 1: unexpected content after closing quote"),
        ] {
            assert_eq!(
                parse_env(text, "Z").unwrap_err().to_string(),
                format!("invalid environment variable format {reason}")
            );
        }
    }
}
