//! Files of variables, which containers write for those that begin after them.
//!
//! A strict part of what a shell reads: `NAME='value'`, the value over several lines if it wants, comments after `#`.

/// The value of a variable in a file. Empty if the file does not have it, as upstream tells both apart by nothing else.
pub(super) fn value_of(text: &str, key: &str) -> Result<String, String> {
    let mut lines = text
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .enumerate();
    while let Some((at, line)) = lines.next() {
        let wrong = |why: &str| {
            Err(format!(
                "invalid environment variable format at line {}: {why}",
                at + 1
            ))
        };
        let line = line.trim_start_matches(BLANKS);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            return wrong("missing '='");
        };
        if name.trim_end_matches(BLANKS).is_empty() {
            return wrong("empty variable name");
        }
        if name.ends_with(BLANKS) {
            return wrong("whitespace before '=' is not allowed");
        }
        if value.starts_with(BLANKS) {
            // As in a shell: the variable is empty, and what follows is somebody else's.
            if name == key {
                return Ok(String::new());
            }
            continue;
        }
        let Some(mut rest) = value.strip_prefix('\'') else {
            return wrong("value must be enclosed in single quotes");
        };
        let mut whole = String::new();
        let mut end = at;
        let after = loop {
            if let Some((last, after)) = rest.split_once('\'') {
                whole.push_str(last);
                break after;
            }
            whole.push_str(rest);
            whole.push('\n');
            match lines.next() {
                Some((at, line)) => (end, rest) = (at, line),
                None => {
                    return Err(format!(
                        "invalid environment variable format starting at line {}: unclosed single quote",
                        at + 1
                    ));
                }
            }
        };
        let after = after.trim_start_matches(BLANKS);
        if !after.is_empty() && !after.starts_with('#') {
            return Err(format!(
                "invalid environment variable format at line {}: unexpected content after closing quote",
                end + 1
            ));
        }
        if name == key {
            return Ok(whole);
        }
    }
    Ok(String::new())
}

const BLANKS: [char; 2] = [' ', '\t'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_a_shell_would() {
        let text = "# first\n\n  A='1'\nB='two\nlines' # said\nC= 'no'\nD='x=y'\n";
        for (key, expected) in [
            ("A", "1"),
            ("B", "two\nlines"),
            ("C", ""),
            ("D", "x=y"),
            ("E", ""),
        ] {
            assert_eq!(value_of(text, key).as_deref(), Ok(expected), "{key}");
        }
    }

    #[test]
    fn what_a_shell_would_not_read_is_refused() {
        for (text, why) in [
            ("A", "at line 1: missing '='"),
            ("\nA ='1'", "at line 2: whitespace before '=' is not allowed"),
            ("='1'", "at line 1: empty variable name"),
            ("A=1", "at line 1: value must be enclosed in single quotes"),
            ("A='1", "starting at line 1: unclosed single quote"),
            ("A='1' b", "at line 1: unexpected content after closing quote"),
        ] {
            assert_eq!(
                value_of(text, "Z").unwrap_err(),
                format!("invalid environment variable format {why}")
            );
        }
    }
}
