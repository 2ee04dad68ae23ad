//! YAML in kubectl's format.

use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

/// Parses one document.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<Option<Value>>(text, options)
        .map(Option::unwrap_or_default)
        .map_err(|error| error.to_string())
}

/// Formats a value: keys in order, lists indented like their key.
pub(crate) fn write(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => block(&mut text, value, 0, false),
        Value::Array(items) if !items.is_empty() => block(&mut text, value, 0, false),
        scalar => {
            scalar_text(&mut text, scalar, 0);
            text.push('\n');
        }
    }
    text
}

/// Writes a non-empty value; `is_inline` when its first line already has its indentation.
fn block(text: &mut String, value: &Value, depth: usize, is_inline: bool) {
    let mut is_first = is_inline;
    let mut begin = |text: &mut String| {
        if !std::mem::take(&mut is_first) {
            text.extend(std::iter::repeat_n(' ', depth));
        }
    };
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                begin(text);
                scalar_text(text, &Value::String(key.clone()), depth);
                text.push(':');
                match value {
                    Value::Object(fields) if !fields.is_empty() => {
                        text.push('\n');
                        block(text, value, depth + 2, false);
                    }
                    Value::Array(items) if !items.is_empty() => {
                        text.push('\n');
                        block(text, value, depth, false);
                    }
                    scalar => {
                        text.push(' ');
                        scalar_text(text, scalar, depth);
                        text.push('\n');
                    }
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                begin(text);
                text.push_str("- ");
                match item {
                    Value::Object(fields) if !fields.is_empty() => block(text, item, depth + 2, true),
                    Value::Array(items) if !items.is_empty() => block(text, item, depth + 2, true),
                    scalar => {
                        scalar_text(text, scalar, depth);
                        text.push('\n');
                    }
                }
            }
        }
        _ => {}
    }
}

fn scalar_text(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::String(string) if is_plain(string) => text.push_str(string),
        Value::String(string) if is_block(string) => {
            text.push_str(if string.ends_with('\n') { "|" } else { "|-" });
            if string.ends_with("\n\n") {
                text.push('+');
            }
            for line in string.strip_suffix('\n').unwrap_or(string).split('\n') {
                text.push('\n');
                if !line.is_empty() {
                    text.extend(std::iter::repeat_n(' ', depth + 2));
                    text.push_str(line);
                }
            }
        }
        // JSON strings are valid YAML, and they quote what needs quotes.
        other => text.push_str(&other.to_string()),
    }
}

/// Whether a string needs no quotes to be parsed as a string.
fn is_plain(text: &str) -> bool {
    let first = text.bytes().next().unwrap_or_default();
    let option = text.strip_prefix("--").or_else(|| text.strip_prefix('-'));
    let is_option = option.is_some_and(|name| name.starts_with(|letter: char| letter.is_ascii_alphabetic()));
    let starts_well = is_option
        || first.is_ascii_alphabetic()
        || matches!(first, b'/' | b'_' | b'<' | b'(' | b'^' | b'$' | b';');
    let has_safe_letters = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    let is_broken = text.contains(": ") || text.contains(" #") || text.ends_with([':', ' ']);
    let lower = text.to_ascii_lowercase();
    let is_word = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"].contains(&lower.as_str());
    if starts_well {
        return has_safe_letters && !is_broken && !is_word;
    }
    first.is_ascii_digit() && has_safe_letters && !is_broken && !is_number_or_time(text)
}

/// Whether a string that begins with a digit would be parsed as a number or a timestamp.
fn is_number_or_time(text: &str) -> bool {
    let bare = text.replace('_', "");
    let is_of_base = ["0x", "0o", "0b", "0X", "0O", "0B"]
        .iter()
        .any(|prefix| text.starts_with(prefix));
    // YAML 1.1 parsers read `1:30` as the sexagesimal number 90.
    let is_sexagesimal = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b":.".contains(&byte))
        && text.contains(':');
    let is_time = text.len() > 4
        && text.bytes().take(4).all(|byte| byte.is_ascii_digit())
        && text.as_bytes()[4] == b'-';
    bare.parse::<f64>().is_ok() || is_of_base || is_sexagesimal || is_time
}

/// Whether a multi-line string can be written as a block scalar.
fn is_block(text: &str) -> bool {
    let printable = |letter: char| letter == '\n' || (letter != '\u{feff}' && !letter.is_control());
    text.contains('\n')
        && text.chars().all(printable)
        && !text.starts_with([' ', '\n'])
        && text.lines().all(|line| !line.ends_with(' '))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn writes_yaml_like_kubectl() {
        let tree = json!({"kind": "Pod", "spec": {"containers": [{"name": "web", "ports": [{"port": 80}], "args": []}]},
            "a": {}, "b": "yes", "c": "80", "d": "one\ntwo\n", "e": null, "f": [["x"], 1], "g": "2026-01-02T03:04:05Z",
            "h": "5m30s", "i": "", "j": ["-c", "--all", "-1", "-", "---"]});
        let text = "\
a: {}
b: \"yes\"
c: \"80\"
d: |
  one
  two
e: null
f:
- - x
- 1
g: \"2026-01-02T03:04:05Z\"
h: 5m30s
i: \"\"
j:
- -c
- --all
- \"-1\"
- \"-\"
- \"---\"
kind: Pod
spec:
  containers:
  - args: []
    name: web
    ports:
    - port: 80
";
        assert_eq!(write(&tree), text);
        assert_eq!(read(text).unwrap(), tree);
    }

    #[test]
    fn strings_survive_a_round_trip() {
        for text in [
            "",
            " ",
            "a: b",
            "#x",
            "- a",
            "0x1f",
            "1e3",
            "1_000",
            "012",
            "1:30",
            "~",
            "null",
            "NO",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "a\tb",
            "a\n",
            "\na",
            "a\n\n",
            "a\n  b\n",
            "x \ny",
            "\u{e9}",
            "{a}",
            "[a]",
            "?",
            "-",
            "--- a",
            "a #b",
            "'",
            "\"",
            "\\",
            "1.5",
            ".5",
            "+1",
            "-1",
            ".inf",
            "5d",
            "1e",
            "0b1",
            "0o7",
            "2001-01-01",
            "1.2.3.4",
            "10Gi",
            "a:b",
            "=",
            "<<",
            "k: v\nx: y",
            "|",
            ">",
            "12e03",
            "0.0.0.0/0",
            "3h",
            "a\n\n\nb\n\n\n",
        ] {
            let tree = json!({"key": text, "list": [text, {"deep": text}]});
            let written = write(&tree);
            assert_eq!(read(&written).unwrap_or_default(), tree, "{text:?}:\n{written}");
        }
    }

    #[test]
    fn reads_numbers_like_go() {
        assert_eq!(
            read("a: 0644\nb: yes\nc: 'no'").unwrap(),
            json!({"a": 420, "b": true, "c": "no"})
        );
        assert!(read("a: 1\na: 2").is_err());
    }
}
