//! Encodes JSON trees as YAML in block style.

use std::fmt::Write as _;

use serde_json::Value;

/// Words that a YAML reader may take for something else than text.
const RESERVED_SCALARS: [&str; 12] = [
    "true", "false", "null", "yes", "no", "on", "off", "y", "n", "~", "<<", "=",
];

/// Writes a tree as YAML.
pub fn yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => block(&mut out, value, 0, false),
        Value::Array(items) if !items.is_empty() => block(&mut out, value, 0, false),
        _ => {
            scalar(&mut out, value, 0);
            out.push('\n');
        }
    }
    out
}

/// Writes a map or list that is not empty, a line for each entry. `started`: the first line has its indent already.
fn block(out: &mut String, value: &Value, indent: usize, started: bool) {
    let mut started = started;
    let mut margin = |out: &mut String| {
        if !std::mem::take(&mut started) {
            out.extend(std::iter::repeat_n(' ', indent));
        }
    };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                margin(out);
                text(out, name, indent);
                out.push(':');
                // The items of a list stand under the name, not further in.
                let deeper = if value.is_array() { indent } else { indent + 2 };
                entry(out, value, indent, deeper);
            }
        }
        Value::Array(items) => {
            for item in items {
                margin(out);
                out.push('-');
                if is_block(item) {
                    out.push(' ');
                    block(out, item, indent + 2, true);
                } else {
                    entry(out, item, indent, indent + 2);
                }
            }
        }
        _ => {}
    }
}

fn entry(out: &mut String, value: &Value, indent: usize, deeper: usize) {
    if is_block(value) {
        out.push('\n');
        block(out, value, deeper, false);
    } else {
        out.push(' ');
        scalar(out, value, indent);
        out.push('\n');
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

fn scalar(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(string) => text(out, string, indent),
        other => write!(out, "{other}").expect("text can be written to memory"),
    }
}

fn text(out: &mut String, string: &str, indent: usize) {
    if is_plain(string) {
        out.push_str(string);
    } else if is_literal(string) {
        let body = string.trim_end_matches('\n');
        out.push_str(match string.len() - body.len() {
            0 => "|-",
            1 => "|",
            _ => "|+",
        });
        for line in body.split('\n') {
            out.push('\n');
            if !line.is_empty() {
                out.extend(std::iter::repeat_n(' ', indent + 2));
                out.push_str(line);
            }
        }
        // The line end of the last line is written by whoever wrote its name.
        out.extend(std::iter::repeat_n(
            '\n',
            (string.len() - body.len()).saturating_sub(1),
        ));
    } else {
        quoted(out, string);
    }
}

/// Writes a JSON string, which is a YAML string in double quotes, but that YAML wants more characters escaped.
fn quoted(out: &mut String, string: &str) {
    for letter in Value::from(string).to_string().chars() {
        match letter {
            ' '..='~' => out.push(letter),
            '\u{a0}'..='\u{2027}'
            | '\u{202a}'..='\u{d7ff}'
            | '\u{e000}'..='\u{fefe}'
            | '\u{ff00}'..='\u{fffd}' => {
                out.push(letter);
            }
            _ => write!(out, "\\U{:08x}", u32::from(letter)).expect("text can be written to memory"),
        }
    }
}

/// Whether a text can stand without quotes and is read back as itself.
fn is_plain(string: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    let bytes = string.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    // Numbers, times and what begins like them are quoted.
    (first.is_ascii_alphabetic() || *first == b'/' || *first == b'_')
        && *last != b':'
        && *last != b' '
        && bytes.iter().enumerate().all(|(at, byte)| {
            letter(*byte)
                || (*byte == b' ' && bytes.get(at + 1) != Some(&b'#'))
                || (*byte == b':' && bytes.get(at + 1) != Some(&b' '))
                || b"@=,()+;".contains(byte)
        })
        && !RESERVED_SCALARS.contains(&string.to_ascii_lowercase().as_str())
}

/// Whether a text of several lines can stand as lines.
fn is_literal(string: &str) -> bool {
    string.contains('\n')
        && !string.starts_with([' ', '\n'])
        && string
            .chars()
            .all(|letter| letter == '\n' || (letter >= ' ' && letter != '\u{7f}'))
        && !string.trim_matches('\n').is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::decode;

    #[test]
    fn maps_and_lists_are_blocks() {
        let tree = json!({
            "kind": "Pod", "metadata": {"labels": {}, "name": "x"},
            "spec": {"containers": [{"args": ["a", "b c"], "name": "m"}, {}], "m": 1, "t": "true", "v": "1"},
        });
        assert_eq!(
            yaml(&tree),
            "kind: Pod\nmetadata:\n  labels: {}\n  name: x\nspec:\n  containers:\n  - args:\n    - a\n    - b c\n    \
             name: m\n  - {}\n  m: 1\n  t: \"true\"\n  v: \"1\"\n"
        );
    }

    #[test]
    fn lines_are_kept_as_lines() {
        assert_eq!(yaml(&json!({"a": "x\n  y\n"})), "a: |\n  x\n    y\n");
        assert_eq!(yaml(&json!({"a": "x\ny"})), "a: |-\n  x\n  y\n");
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[ -~\n]{0,12}".prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ -~]{1,6}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(tree in tree()) {
            let tree = json!({"a": tree});
            let read = decode::yaml_to_json(yaml(&tree).as_bytes()).unwrap().value;
            prop_assert_eq!(read, tree);
        }
    }
}
