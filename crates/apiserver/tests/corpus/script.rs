//! Reads the files of the corpus.

use std::{ops::Range, path::Path};

use k3_api::decode::yaml_to_json;
use serde_json::Value;

/// A request and the answer to it.
#[derive(Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) title: String,
    /// The line of its title, from 1.
    pub(crate) line: usize,
    pub(crate) method: String,
    /// The path; for `WATCH` and `EVENTS` the name of the watch before it.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) expected: Option<ExpectedAnswer>,
    /// The lines of the expected answer, from 0: what an update replaces.
    pub(crate) answer_lines: Range<usize>,
}

/// What a step expects.
#[derive(Debug, PartialEq)]
pub(crate) struct ExpectedAnswer {
    pub(crate) status: u16,
    pub(crate) exactness: Exactness,
    pub(crate) headers: Vec<(String, String)>,
    /// `None` if any body will do.
    pub(crate) body: Option<Value>,
}

/// Whether an answer may have fields that are not expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exactness {
    Subset,
    Exact,
}

/// Reads a file; `Err` names the line that is wrong.
pub(crate) fn parse(text: &str) -> Result<Vec<Step>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let starts: Vec<usize> = (0..lines.len())
        .filter(|at| lines[*at].starts_with("### "))
        .collect();
    let ends = starts.iter().skip(1).copied().chain([lines.len()]);
    let steps = starts
        .iter()
        .zip(ends)
        .map(|(start, end)| step(&lines, *start..end));
    steps.collect()
}

fn step(lines: &[&str], range: Range<usize>) -> Result<Step, String> {
    let answer = range.clone().find(|at| lines[*at].starts_with("HTTP "));
    let blank_tail = lines[range.clone()]
        .iter()
        .rev()
        .take_while(|line| is_blank(line))
        .count();
    let end = range.end - blank_tail;
    let request_end = answer.unwrap_or(end);
    let mut at = skip_comments(lines, range.start + 1, request_end);
    let (method, target) = lines[..request_end]
        .get(at)
        .and_then(|line| line.split_once(' '))
        .ok_or_else(|| format!("line {}: no request, such as `GET /version`", range.start + 1))?;
    at += 1;
    let headers = headers(lines, &mut at, request_end)?;
    let expected = answer.map(|answer| expected(lines, answer..end)).transpose()?;
    Ok(Step {
        title: lines[range.start].trim_start_matches("### ").to_owned(),
        line: range.start + 1,
        method: method.to_owned(),
        target: target.trim().to_owned(),
        headers,
        body: lines[at..request_end].join("\n").trim().to_owned(),
        expected,
        answer_lines: request_end..end,
    })
}

fn expected(lines: &[&str], range: Range<usize>) -> Result<ExpectedAnswer, String> {
    let bad = |why: &str| format!("line {}: {why}", range.start + 1);
    let mut tokens = lines[range.start].split_whitespace().skip(1);
    let status = tokens.next().and_then(|token| token.parse().ok());
    let exactness = match tokens.next() {
        None => Exactness::Subset,
        Some("exact") => Exactness::Exact,
        Some(_) => return Err(bad("after the status is nothing, or `exact`")),
    };
    let mut at = range.start + 1;
    let headers = headers(lines, &mut at, range.end)?;
    let body = lines[at..range.end].join("\n");
    let body = if body.trim().is_empty() {
        None
    } else {
        let decoded = yaml_to_json(body.as_bytes()).map_err(|error| bad(&format!("{error:?}")))?;
        if !decoded.strict_errors.is_empty() {
            return Err(bad(&format!("{:?}", decoded.strict_errors)));
        }
        Some(decoded.value)
    };
    Ok(ExpectedAnswer {
        status: status.ok_or_else(|| bad("no status"))?,
        exactness,
        headers,
        body,
    })
}

/// Reads headers up to a blank line, and leaves `at` behind them.
fn headers(lines: &[&str], at: &mut usize, end: usize) -> Result<Vec<(String, String)>, String> {
    let mut headers = Vec::new();
    while *at < end && !is_blank(lines[*at]) {
        let line = lines[*at];
        if !line.starts_with('#') {
            let (name, value) = line
                .split_once(": ")
                .ok_or_else(|| format!("line {}: no header; a blank line is before a body", *at + 1))?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        *at += 1;
    }
    Ok(headers)
}

fn skip_comments(lines: &[&str], from: usize, end: usize) -> usize {
    (from..end)
        .find(|at| !lines[*at].starts_with('#') && !is_blank(lines[*at]))
        .unwrap_or(end)
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

/// Reads a file that must be right.
pub(crate) fn read(path: &Path) -> (String, Vec<Step>) {
    let text = std::fs::read_to_string(path).unwrap();
    let steps = parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (text, steps)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = "\
# about the file

### the first
# a reason
PUT /a
Accept: text/plain

{\"a\":
 1}

HTTP 201 exact
Warning: 299 - \"w\"

a: 1
b: [2]

### the second
GET /b
HTTP 200

### a draft
DELETE /c
";

    #[test]
    fn reads_requests_and_answers() {
        let steps = parse(FILE).unwrap();
        let first = Step {
            title: "the first".to_owned(),
            line: 3,
            method: "PUT".to_owned(),
            target: "/a".to_owned(),
            headers: vec![("Accept".to_owned(), "text/plain".to_owned())],
            body: "{\"a\":\n 1}".to_owned(),
            expected: Some(ExpectedAnswer {
                status: 201,
                exactness: Exactness::Exact,
                headers: vec![("Warning".to_owned(), "299 - \"w\"".to_owned())],
                body: Some(json!({"a": 1, "b": [2]})),
            }),
            answer_lines: 10..15,
        };
        assert_eq!(steps[0], first);
        assert_eq!(steps[1].expected.as_ref().unwrap().body, None);
        assert_eq!((steps[2].method.as_str(), &steps[2].expected), ("DELETE", &None));
        assert_eq!(steps.len(), 3);
    }

    #[test]
    fn names_the_line_of_what_is_wrong() {
        for (file, expected) in [
            ("### a\nGET /a\nAccept\nHTTP 200", "line 3: no header"),
            ("### a\nGET /a\nHTTP 2xx", "line 3: no status"),
            ("### a\nGET /a\nHTTP 200 Exact", "line 3: after the status"),
            ("### a\nHTTP 200", "line 1: no request"),
            ("### a\nGET /a\nHTTP 200\n\na: 1\na: 2", "line 3: "),
        ] {
            let error = parse(file).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
