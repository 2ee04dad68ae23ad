//! How a text is written: plain, quoted, or as lines.

use crate::number::{is_float, is_number_or_time};

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarStyle {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    /// Line by line after a `|`.
    Literal,
}

/// What a text contains.
// As yaml_emitter_analyze_scalar in emitterc.go of go.yaml.in/yaml/v2.
struct Analysis {
    is_plain_allowed: bool,
    is_single_quoted_allowed: bool,
    is_literal_allowed: bool,
}

/// The style of a value.
pub(crate) fn value_style(text: &str) -> ScalarStyle {
    let analysis = analyze(text);
    if text.contains('\n') {
        if analysis.is_literal_allowed {
            ScalarStyle::Literal
        } else {
            ScalarStyle::DoubleQuoted
        }
    } else if is_read_as_other_type(text) {
        ScalarStyle::DoubleQuoted
    } else {
        flat_style(&analysis)
    }
}

/// The style of a key before its colon.
pub(crate) fn simple_key_style(text: &str) -> ScalarStyle {
    if text.contains('\n') || is_read_as_other_type(text) {
        ScalarStyle::DoubleQuoted
    } else {
        flat_style(&analyze(text))
    }
}

/// Whether a key stands on the line of its value.
// As yaml_emitter_check_simple_key in emitterc.go of go.yaml.in/yaml/v2.
pub(crate) fn is_simple_key(text: &str) -> bool {
    text.len() <= 128 && !text.chars().any(is_break)
}

/// A line break of YAML 1.1.
pub(crate) fn is_break(letter: char) -> bool {
    matches!(letter, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether a letter is written as itself.
// As is_printable in yamlprivateh.go of go.yaml.in/yaml/v2.
pub(crate) fn is_printable(letter: char) -> bool {
    matches!(
        letter,
        '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}'
    )
}

fn flat_style(analysis: &Analysis) -> ScalarStyle {
    if analysis.is_plain_allowed {
        ScalarStyle::Plain
    } else if analysis.is_single_quoted_allowed {
        ScalarStyle::SingleQuoted
    } else {
        ScalarStyle::DoubleQuoted
    }
}

/// Whether a text without quotes is read as null, a truth value, a number or a time.
// As resolve in resolve.go of go.yaml.in/yaml/v2.
fn is_read_as_other_type(text: &str) -> bool {
    match text.as_bytes().first() {
        None => true,
        Some(b'0'..=b'9' | b'+' | b'-') => {
            is_number_or_time(text)
                || matches!(text, "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf" | "-.INF")
        }
        Some(b'.') => is_float(text) || matches!(text, ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF"),
        Some(_) => matches!(
            text,
            "y" | "Y"
                | "yes"
                | "Yes"
                | "YES"
                | "true"
                | "True"
                | "TRUE"
                | "on"
                | "On"
                | "ON"
                | "n"
                | "N"
                | "no"
                | "No"
                | "NO"
                | "false"
                | "False"
                | "FALSE"
                | "off"
                | "Off"
                | "OFF"
                | "~"
                | "<<"
                | "null"
                | "Null"
                | "NULL"
        ),
    }
}

fn analyze(text: &str) -> Analysis {
    let mut has_indicators = text.starts_with("---") || text.starts_with("...");
    let mut has_breaks = false;
    let mut is_special = false;
    let mut has_break_space = false;
    let mut has_space_break = false;
    let mut previous = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_followed_by_blank = letters.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
        has_indicators |= match (letter, previous) {
            (
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                | '`',
                None,
            ) => true,
            ('?' | '-', None) | (':', _) => is_followed_by_blank,
            ('#', Some(previous)) => is_blank_or_break(previous),
            _ => false,
        };
        // Upstream writes the breaks of Unicode as they are; readers of YAML 1.2 take them, and the indent after them, for letters.
        is_special |= !is_printable(letter) || matches!(letter, '\u{2028}' | '\u{2029}');
        if letter == ' ' {
            has_break_space |= previous.is_some_and(is_break);
        } else if is_break(letter) {
            has_breaks = true;
            has_space_break |= previous == Some(' ');
        }
        previous = Some(letter);
    }
    let begins_or_ends_blank = text.starts_with(|letter| letter == ' ' || is_break(letter))
        || text.ends_with(|letter| letter == ' ' || is_break(letter));
    let is_flat = !has_break_space && !has_space_break && !is_special;
    Analysis {
        is_plain_allowed: is_flat && !begins_or_ends_blank && !has_breaks && !has_indicators,
        is_single_quoted_allowed: is_flat,
        is_literal_allowed: !text.ends_with(' ') && !has_space_break && !is_special,
    }
}

fn is_blank_or_break(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\0') || is_break(letter)
}
