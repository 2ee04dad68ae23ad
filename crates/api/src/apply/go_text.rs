//! How Go writes values, where its writing shows in messages, records and annotations.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// JSON as Go's encoder writes it: keys sorted, no spaces, `<`, `>` and `&` escaped, whole floats without a
/// point.
pub(crate) fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(yes) => out.push_str(if *yes { "true" } else { "false" }),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_json_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (index, (key, value)) in sorted(object).into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json_string(out, key);
                out.push(':');
                write_json(out, value);
            }
            out.push('}');
        }
    }
}

/// A string in JSON, with what could end a script in a web page escaped.
pub(crate) fn write_json_string(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{0}'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => push_hex(out, letter),
            other => out.push(other),
        }
    }
    out.push('"');
}

/// A number: integers as they are, floats with the fewest digits that tell them apart.
pub(crate) fn write_number(out: &mut String, number: &Number) {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        let _ = write!(out, "{number}");
        return;
    };
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{float:e}");
        // Go always shows the sign of the exponent.
        out.push_str(&if text.contains("e-") {
            text
        } else {
            text.replace('e', "e+")
        });
    } else {
        let _ = write!(out, "{float}");
    }
}

/// A string as Go's `%q`.
pub(crate) fn write_quoted(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{0}'..='\u{1f}' | '\u{7f}' => {
                let _ = write!(out, "\\x{:02x}", u32::from(letter));
            }
            other if other.is_control() || (other.is_whitespace() && other != ' ') => push_hex(out, other),
            other => out.push(other),
        }
    }
    out.push('"');
}

/// A value as Go's `%v`.
pub(crate) fn write_plain(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(yes) => out.push_str(if *yes { "true" } else { "false" }),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                write_plain(out, item);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push_str("map[");
            for (index, (key, value)) in sorted(object).into_iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_plain(out, value);
            }
            out.push(']');
        }
    }
}

/// A value as Go's `%#v`.
pub(crate) fn write_source(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::String(text) => write_quoted(out, text),
        Value::Bool(_) | Value::Number(_) => write_plain(out, value),
        Value::Array(items) => {
            out.push_str("[]interface {}{");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_source(out, item);
            }
            out.push('}');
        }
        Value::Object(object) => {
            out.push_str("map[string]interface {}{");
            for (index, (key, value)) in sorted(object).into_iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_quoted(out, key);
                out.push(':');
                write_source(out, value);
            }
            out.push('}');
        }
    }
}

/// The Go type a decoded JSON value has, as `%T` names it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn push_hex(out: &mut String, letter: char) {
    let _ = write!(out, "\\u{:04x}", u32::from(letter));
}

fn sorted(object: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = object.iter().collect();
    fields.sort_unstable_by_key(|field| field.0);
    fields
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(write: impl Fn(&mut String)) -> String {
        let mut out = String::new();
        write(&mut out);
        out
    }

    #[test]
    fn json_is_sorted_and_escapes_what_a_web_page_would_read() {
        let value = json!({"b": [1, 2.0, 1.5e-7, 1e22], "a": "<&>\u{8}\n\u{2028}"});
        assert_eq!(
            text(|out| write_json(out, &value)),
            r#"{"a":"\u003c\u0026\u003e\u0008\n\u2028","b":[1,2,1.5e-7,1e+22]}"#
        );
    }

    #[test]
    fn values_print_as_go_prints_them() {
        let value = json!({"b": [1, "x", null], "a": true});
        assert_eq!(text(|out| write_plain(out, &value)), "map[a:true b:[1 x <nil>]]");
        assert_eq!(
            text(|out| write_source(out, &value)),
            r#"map[string]interface {}{"a":true, "b":[]interface {}{1, "x", interface {}(nil)}}"#
        );
        assert_eq!(
            text(|out| write_quoted(out, "a\"\\\u{1}\u{7f}\u{85}")),
            r#""a\"\\\x01\x7f\u0085""#
        );
    }
}
