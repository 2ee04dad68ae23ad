//! Go's formatting of values (`%v`, `%q`), which appears in error messages.
//!
//! Messages of the API are read by programs and compared by tests, and many of them carry a value as Go's
//! `%q`, `%v` or `json.Marshal` prints it. Promises: the same text, byte for byte, for anything JSON can hold.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// A string as `%q` prints it: in double quotes, with escapes for what cannot be printed.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quote(&mut out, text);
    out
}

/// A value as `%v` prints it: `map[a:1 b:[x y]]`, strings bare, null as `<nil>`.
pub fn plain(value: &Value) -> String {
    let mut out = String::new();
    push_plain(&mut out, value);
    out
}

/// A list of values as `%v` prints it.
pub fn plain_list(values: &[Value]) -> String {
    let mut out = String::new();
    push_list(&mut out, values);
    out
}

/// An object as `%v` prints it.
pub fn plain_map(map: &Map<String, Value>) -> String {
    let mut out = String::new();
    push_map(&mut out, map);
    out
}

/// A value as `json.Marshal` prints it: compact, keys sorted, `<`, `>` and `&` escaped.
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    push_json(&mut out, value);
    out
}

/// A string as `json.Marshal` prints it.
pub fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_json_string(&mut out, text);
    out
}

/// A float as `%v` prints it: the shortest digits, an exponent from 1e-05 down and from 1e+06 up.
pub fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = split_exponent(&scientific);
    if number == 0.0 || (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// The name of the Go type that JSON decodes to, as `%T` prints it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Whether Go calls a character printable: letters, marks, numbers, punctuation, symbols and the ASCII space.
pub fn is_print(c: char) -> bool {
    match c {
        ' '..='~' => true,
        _ if c.is_ascii() => false,
        // Rust escapes the same classes of characters, and besides them, at the start only, what extends the
        // character before.
        _ => {
            let mut pair = [b'a'; 5];
            let len = 1 + c.encode_utf8(&mut pair[1..]).len();
            std::str::from_utf8(&pair[..len]).is_ok_and(|text| text.escape_debug().count() == 2)
        }
    }
}

fn push_escape(out: &mut String, c: char) {
    let code = u32::from(c);
    let written = match code {
        0..0x80 => write!(out, "\\x{code:02x}"),
        0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
    written.expect("writing to a string succeeds");
}

/// Appends what [`quote`] makes.
pub(crate) fn push_quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            _ if is_print(c) => out.push(c),
            _ => push_escape(out, c),
        }
    }
    out.push('"');
}

/// Appends what [`plain`] makes.
pub(crate) fn push_plain(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => out.push_str(&plain_number(n)),
        Value::String(s) => out.push_str(s),
        Value::Array(list) => push_list(out, list),
        Value::Object(map) => push_map(out, map),
    }
}

fn push_list(out: &mut String, list: &[Value]) {
    out.push('[');
    for (i, item) in list.iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        push_plain(out, item);
    }
    out.push(']');
}

fn push_map(out: &mut String, map: &Map<String, Value>) {
    out.push_str("map[");
    for (i, (key, item)) in sorted(map).into_iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        out.push_str(key);
        out.push(':');
        push_plain(out, item);
    }
    out.push(']');
}

/// Appends a value as `%#v` prints it.
pub(crate) fn push_source(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::String(text) => push_quote(out, text),
        Value::Bool(_) | Value::Number(_) => push_plain(out, value),
        Value::Array(items) => {
            out.push_str("[]interface {}{");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                push_source(out, item);
            }
            out.push('}');
        }
        Value::Object(object) => {
            out.push_str("map[string]interface {}{");
            for (index, (key, value)) in sorted(object).into_iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                push_quote(out, key);
                out.push(':');
                push_source(out, value);
            }
            out.push('}');
        }
    }
}

fn plain_number(number: &Number) -> String {
    match number.as_f64() {
        Some(f) if number.is_f64() => float(f),
        _ => number.to_string(),
    }
}

/// Appends what [`json`] makes.
pub(crate) fn push_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => out.push_str(&json_number(n)),
        Value::String(s) => push_json_string(out, s),
        Value::Array(list) => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                push_json(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (i, (key, item)) in sorted(map).into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                push_json_string(out, key);
                out.push(':');
                push_json(out, item);
            }
            out.push('}');
        }
    }
}

/// Appends what [`json_string`] makes.
pub(crate) fn push_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a string succeeds");
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// JSON has its own taste in floats: plain digits from 1e-6 up to 1e21, and exponents without padding.
fn json_number(number: &Number) -> String {
    let Some(f) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    let size = f.abs();
    if f == 0.0 || (1e-6..1e21).contains(&size) {
        return format!("{f}");
    }
    let scientific = format!("{f:e}");
    let (digits, exponent) = split_exponent(&scientific);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{}", exponent.unsigned_abs())
}

fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

fn split_exponent(scientific: &str) -> (&str, i32) {
    let (digits, exponent) = scientific
        .split_once('e')
        .expect("the exponent form has an exponent");
    (digits, exponent.parse().expect("an exponent is a small integer"))
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    #[test]
    fn quotes_escape_what_cannot_be_printed() {
        assert_eq!(quote("plain 'text' <&>"), r#""plain 'text' <&>""#);
        assert_eq!(
            quote("a\"b\\c\n\t\r\u{7}\u{0}\u{7f}"),
            r#""a\"b\\c\n\t\r\a\x00\x7f""#
        );
        assert_eq!(quote("h\u{e9}\u{301}\u{65e5}"), "\"h\u{e9}\u{301}\u{65e5}\"");
        assert_eq!(quote("\u{a0}\u{200b}\u{e0001}"), r#""\u00a0\u200b\U000e0001""#);
    }

    #[test]
    fn maps_print_sorted_and_bare() {
        let v = value!({"b": [1, 2.5, null, true], "a": {"x": "y z"}});
        assert_eq!(plain(&v), "map[a:map[x:y z] b:[1 2.5 <nil> true]]");
    }

    #[test]
    fn source_names_the_types_of_what_holds_others() {
        let mut out = String::new();
        push_source(&mut out, &value!({"b": [1, "x", null], "a": true}));
        assert_eq!(
            out,
            r#"map[string]interface {}{"a":true, "b":[]interface {}{1, "x", interface {}(nil)}}"#
        );
    }

    #[test]
    fn json_escapes_markup_and_sorts_keys() {
        let v = value!({"z": "<a>&\u{2028}\u{1}\n", "a": [1, -2.5, 1e21, 1e-7, 1e20]});
        assert_eq!(
            json(&v),
            r#"{"a":[1,-2.5,1e+21,1e-7,100000000000000000000],"z":"\u003ca\u003e\u0026\u2028\u0001\n"}"#
        );
    }

    #[test]
    fn floats_print_as_percent_v() {
        for (f, text) in [
            (2.5, "2.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123_456.0, "123456"),
            (1e6, "1e+06"),
            (-1.25e100, "-1.25e+100"),
            (123_456_789.5, "1.234567895e+08"),
        ] {
            assert_eq!(float(f), text);
        }
    }
}
