//! Indented JSON (`?pretty=true`).

/// Spreads compact JSON over lines, two spaces a level, as Go's indenter does. The order of fields is kept, and
/// what is empty stays on its line. Bytes that are not JSON give some output, and do not panic.
pub fn pretty(compact: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(compact.len() * 2);
    let mut depth = 0usize;
    let mut in_text = false;
    let mut escaped = false;
    for (at, &byte) in compact.iter().enumerate() {
        if in_text {
            lines.push(byte);
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'{' | b'[' => {
                lines.push(byte);
                // Openers with nothing behind them stay with their closers.
                if !matches!(compact.get(at + 1), Some(b'}' | b']')) {
                    depth += 1;
                    break_line(&mut lines, depth);
                }
            }
            b'}' | b']' => {
                let empty = at > 0 && matches!(compact[at - 1], b'{' | b'[');
                if !empty {
                    depth = depth.saturating_sub(1);
                    break_line(&mut lines, depth);
                }
                lines.push(byte);
            }
            b',' => {
                lines.push(byte);
                break_line(&mut lines, depth);
            }
            b':' => lines.extend_from_slice(b": "),
            _ => {
                lines.push(byte);
                in_text = byte == b'"';
            }
        }
    }
    lines
}

fn break_line(lines: &mut Vec<u8>, depth: usize) {
    lines.push(b'\n');
    lines.resize(lines.len() + 2 * depth, b' ');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::samples::object;
    use proptest::prelude::*;
    use serde_json::Value;

    fn spread(text: &str) -> String {
        String::from_utf8(pretty(text.as_bytes())).unwrap()
    }

    #[test]
    fn each_field_has_its_line_and_what_is_empty_none() {
        let lines = "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": \"x,\\\"{:}\",\n  \"c\": []\n}";
        assert_eq!(spread(r#"{"a":[1,{}],"b":"x,\"{:}","c":[]}"#), lines);
        assert_eq!(spread("{}"), "{}");
        assert_eq!(spread(r#""\\""#), r#""\\""#);
    }

    proptest! {
        #[test]
        fn it_means_the_same((_, value) in object()) {
            let lines = pretty(&serde_json::to_vec(&value).unwrap());
            prop_assert_eq!(&lines, &serde_json::to_vec_pretty(&value).unwrap());
            prop_assert_eq!(serde_json::from_slice::<Value>(&lines).unwrap(), value);
        }

        #[test]
        fn never_panics_on_arbitrary_bytes(bytes: Vec<u8>) {
            let _ = pretty(&bytes);
        }
    }
}
