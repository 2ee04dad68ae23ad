//! Durations as schemas with `format: duration` have them: in Go's syntax, or numbers with English units (`3 days`).

use crate::Duration;

/// What a unit is called: whole names, what the other names begin with, and its nanoseconds.
const UNITS: [(&[&str], &str, i64); 8] = [
    (&["ns"], "nano", 1),
    (&["us", "\u{b5}s"], "micro", 1_000),
    (&["ms"], "milli", 1_000_000),
    (&["s"], "sec", SECOND),
    (&["m"], "min", 60 * SECOND),
    (&["h", "hr"], "hour", 3600 * SECOND),
    (&["d"], "day", 24 * 3600 * SECOND),
    (&["w", "wk"], "week", 7 * 24 * 3600 * SECOND),
];

const SECOND: i64 = 1_000_000_000;

/// Parses a duration in Go's syntax, or the sum of numbers with English units, which may be anywhere in the text.
// upstream: vendor/k8s.io/kube-openapi/pkg/validation/strfmt/duration.go ParseDuration; a sum that does not fit wraps
pub fn parse_worded(text: &str) -> Option<Duration> {
    if let Ok(duration) = text.parse() {
        return Some(duration);
    }
    let mut sum = None;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[start..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let after = after.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        let end = after
            .find(|c: char| !c.is_ascii_alphabetic() && c != '\u{b5}')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        rest = after;
        if unit.is_empty() {
            continue;
        }
        let number: i64 = number.parse().ok()?;
        let unit = unit.to_lowercase();
        let known = UNITS
            .iter()
            .find(|(names, prefix, _)| names.contains(&&*unit) || unit.starts_with(prefix));
        if let Some((.., size)) = known {
            sum = Some(sum.unwrap_or(0_i64).wrapping_add(number.wrapping_mul(*size)));
        }
    }
    sum.map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_go_syntax_and_english_units() {
        for (text, seconds) in [
            ("1h30m", Some(5400)),
            ("3 days", Some(3 * 24 * 3600)),
            // `hrs` is no unit.
            ("1 week 2 hrs", Some(7 * 24 * 3600)),
            ("1 week, 2 hours", Some(7 * 24 * 3600 + 7200)),
            ("about 5 min or so", Some(300)),
            ("2MINUTES", Some(120)),
            ("5 12s", Some(12)),
            ("3 months", None),
            ("99999999999999999999 s", None),
            ("days", None),
            ("7", None),
            ("", None),
        ] {
            let parsed = parse_worded(text).map(Duration::whole_seconds);
            assert_eq!(parsed, seconds, "{text}");
        }
    }
}
