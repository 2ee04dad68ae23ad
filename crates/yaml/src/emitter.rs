//! Writes a tree.
// upstream: vendor/sigs.k8s.io/yaml/yaml.go JSONToYAML

use std::fmt::Write;

use serde_json::Value;

use crate::{
    key_order::in_key_order,
    number::format_number,
    scalar::{ScalarStyle, is_break, is_printable, is_simple_key, simple_key_style, value_style},
};

/// Texts are folded at the first space behind this column.
const WIDTH: usize = 80;
const INDENT: usize = 2;

/// A tree as YAML, with a line end after the last line.
pub fn to_string(value: &Value) -> String {
    let mut emitter = Emitter {
        out: String::new(),
        column: 0,
        is_after_whitespace: true,
        is_indention: true,
    };
    emitter.node(value, None, Parent::Document);
    emitter.begin_line(0);
    emitter.out
}

struct Emitter {
    out: String,
    /// Letters in the current line.
    column: usize,
    /// Whether the last letter was a space that separates.
    is_after_whitespace: bool,
    /// Whether the line has only its indent and indicators.
    is_indention: bool,
}

/// What a node is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parent {
    Document,
    List,
    Map,
}

/// Whether a text may be folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folding {
    Allowed,
    /// In keys before their colon.
    Forbidden,
}

// --- Emitter ---

impl Emitter {
    /// `indent` is that of the collection around, if there is one.
    fn node(&mut self, value: &Value, indent: Option<usize>, parent: Parent) {
        let deeper = indent.map_or(0, |indent| indent + INDENT);
        match value {
            Value::Object(fields) if fields.is_empty() => self.indicator("{}"),
            Value::Array(items) if items.is_empty() => self.indicator("[]"),
            Value::Object(fields) => {
                for (key, value) in in_key_order(fields.iter().collect()) {
                    self.begin_line(deeper);
                    self.key(key, deeper);
                    self.node(value, Some(deeper), Parent::Map);
                }
            }
            Value::Array(items) => {
                // A list is as far in as its key.
                let is_under_key = parent == Parent::Map && !self.is_indention;
                let indent = if is_under_key {
                    indent.unwrap_or_default()
                } else {
                    deeper
                };
                for item in items {
                    self.begin_line(indent);
                    self.block_indicator("-");
                    self.node(item, Some(indent), Parent::List);
                }
            }
            Value::String(text) => self.text(text, value_style(text), text_indent(indent), Folding::Allowed),
            Value::Number(number) => self.plain(&format_number(number)),
            Value::Bool(true) => self.plain("true"),
            Value::Bool(false) => self.plain("false"),
            Value::Null => self.plain("null"),
        }
    }

    fn key(&mut self, key: &str, indent: usize) {
        if is_simple_key(key) {
            self.text(key, simple_key_style(key), indent + INDENT, Folding::Forbidden);
            self.put(':');
            self.is_after_whitespace = false;
            self.is_indention = false;
        } else {
            self.block_indicator("?");
            self.text(key, value_style(key), indent + INDENT, Folding::Allowed);
            self.begin_line(indent);
            self.block_indicator(":");
        }
    }

    fn text(&mut self, text: &str, style: ScalarStyle, indent: usize, folding: Folding) {
        match style {
            ScalarStyle::Plain => {
                self.separate();
                self.flat(text, indent, folding, style);
            }
            ScalarStyle::SingleQuoted => {
                self.separate();
                self.put('\'');
                self.flat(text, indent, folding, style);
                self.put('\'');
            }
            ScalarStyle::DoubleQuoted => {
                self.separate();
                self.put('"');
                self.double_quoted(text, indent, folding);
                self.put('"');
            }
            ScalarStyle::Literal => return self.literal(text, indent),
        }
        self.is_after_whitespace = false;
        self.is_indention = false;
    }

    /// Plain or single-quoted, without line breaks but those of Unicode.
    // As yaml_emitter_write_plain_scalar, yaml_emitter_write_single_quoted_scalar in emitterc.go of go.yaml.in/yaml/v2.
    fn flat(&mut self, text: &str, indent: usize, folding: Folding, style: ScalarStyle) {
        let is_quoted = style == ScalarStyle::SingleQuoted;
        let mut is_after_space = false;
        let mut is_after_break = false;
        let mut letters = text.chars().enumerate().peekable();
        while let Some((at, letter)) = letters.next() {
            let next = letters.peek().map(|(_, next)| *next);
            if letter == ' ' {
                let is_between_letters = !is_quoted || (at > 0 && next.is_some());
                let may_fold = folding == Folding::Allowed && !is_after_space && self.column > WIDTH;
                if may_fold && is_between_letters && next != Some(' ') {
                    self.begin_line(indent);
                } else {
                    self.put(letter);
                }
                is_after_space = true;
            } else if is_break(letter) {
                self.put(letter);
                self.is_indention = true;
                is_after_break = true;
            } else {
                if is_after_break {
                    self.begin_line(indent);
                }
                if is_quoted && letter == '\'' {
                    self.put('\'');
                }
                self.put(letter);
                self.is_indention = false;
                is_after_space = false;
                is_after_break = false;
            }
        }
    }

    // As yaml_emitter_write_double_quoted_scalar in emitterc.go of go.yaml.in/yaml/v2.
    fn double_quoted(&mut self, text: &str, indent: usize, folding: Folding) {
        let mut is_after_space = false;
        let mut letters = text.chars().enumerate().peekable();
        while let Some((at, letter)) = letters.next() {
            let next = letters.peek().map(|(_, next)| *next);
            if !is_printable(letter) || is_break(letter) || matches!(letter, '"' | '\\') {
                self.escaped(letter);
                is_after_space = false;
                continue;
            }
            let may_fold = folding == Folding::Allowed && !is_after_space && self.column > WIDTH;
            if letter == ' ' && may_fold && at > 0 && next.is_some() {
                self.begin_line(indent);
                if next == Some(' ') {
                    self.put('\\');
                }
            } else {
                self.put(letter);
            }
            is_after_space = letter == ' ';
        }
    }

    fn escaped(&mut self, letter: char) {
        let short = match letter {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' | '\\' => letter,
            '\u{85}' => 'N',
            '\u{a0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => {
                let code = u32::from(letter);
                let long = match code {
                    ..=0xff => format!("\\x{code:02X}"),
                    0x100..=0xffff => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                };
                long.chars().for_each(|letter| self.put(letter));
                return;
            }
        };
        self.put('\\');
        self.put(short);
    }

    // As yaml_emitter_write_literal_scalar in emitterc.go of go.yaml.in/yaml/v2.
    fn literal(&mut self, text: &str, indent: usize) {
        self.separate();
        self.put('|');
        if text.starts_with(|letter| letter == ' ' || is_break(letter)) {
            // Writing to a string does not fail.
            let _ = write!(self.out, "{INDENT}");
        }
        let mut from_end = text.chars().rev();
        let ends_with_break = from_end.next().is_some_and(is_break);
        match from_end.next() {
            _ if !ends_with_break => self.put('-'),
            Some(before) if !is_break(before) => {}
            _ => self.put('+'),
        }
        self.put('\n');
        self.is_indention = true;
        self.is_after_whitespace = true;
        let mut is_after_break = true;
        for letter in text.chars() {
            if is_break(letter) {
                self.put(letter);
                self.is_indention = true;
                is_after_break = true;
            } else {
                if is_after_break {
                    self.begin_line(indent);
                }
                self.put(letter);
                self.is_indention = false;
                is_after_break = false;
            }
        }
    }

    fn plain(&mut self, text: &str) {
        self.separate();
        text.chars().for_each(|letter| self.put(letter));
        self.is_after_whitespace = false;
        self.is_indention = false;
    }

    /// An indicator in a line.
    fn indicator(&mut self, text: &str) {
        self.plain(text);
    }

    /// An indicator behind which a collection may begin in the same line.
    fn block_indicator(&mut self, text: &str) {
        let is_indention = self.is_indention;
        self.plain(text);
        self.is_indention = is_indention;
    }

    fn separate(&mut self) {
        if !self.is_after_whitespace {
            self.put(' ');
        }
    }

    /// Moves to this column: in this line if it has only indicators, else in the next one.
    // As yaml_emitter_write_indent in emitterc.go of go.yaml.in/yaml/v2.
    fn begin_line(&mut self, indent: usize) {
        let is_behind = self.column > indent || (self.column == indent && !self.is_after_whitespace);
        if !self.is_indention || is_behind {
            self.put('\n');
        }
        while self.column < indent {
            self.put(' ');
        }
        self.is_after_whitespace = true;
        self.is_indention = true;
    }

    fn put(&mut self, letter: char) {
        self.out.push(letter);
        self.column = if is_break(letter) { 0 } else { self.column + 1 };
    }
}

/// The indent of lines of a text in a collection with this indent.
fn text_indent(indent: Option<usize>) -> usize {
    indent.map_or(INDENT, |indent| indent + INDENT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Value {
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        let read: Option<Value> = serde_saphyr::from_str_with_options(text, options).unwrap();
        read.unwrap_or_default()
    }

    #[test]
    fn writes_collections_like_kubectl() {
        let tree = json!({"kind": "Pod", "spec": {"containers": [{"name": "web", "ports": [{"port": 80}], "args": []}]},
            "a": {}, "b": "yes", "c": "80", "d": "one\ntwo\n", "e": null, "f": [["x"], 1, {}], "g": "2026-01-02T03:04:05Z",
            "h": "5m30s", "i": "", "j": ["-c", "--all", "-1", "-", "---"], "k": "a: b", "l": "10.0.0.1", "m": "*"});
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
- {}
g: \"2026-01-02T03:04:05Z\"
h: 5m30s
i: \"\"
j:
- -c
- --all
- \"-1\"
- '-'
- '---'
k: 'a: b'
kind: Pod
l: 10.0.0.1
m: '*'
spec:
  containers:
  - args: []
    name: web
    ports:
    - port: 80
";
        assert_eq!(to_string(&tree), text);
        assert_eq!(read(text), tree);
    }

    #[test]
    fn writes_scalars_as_documents() {
        for (tree, text) in [
            (json!("x"), "x\n"),
            (json!(null), "null\n"),
            (json!({}), "{}\n"),
            (json!([]), "[]\n"),
            (json!([1, [2]]), "- 1\n- - 2\n"),
        ] {
            assert_eq!(to_string(&tree), text);
        }
    }

    #[test]
    fn keeps_lines_as_lines() {
        for (text, written) in [
            ("x\ny", "a: |-\n  x\n  y\n"),
            ("x\n  y\n", "a: |\n  x\n    y\n"),
            ("x\n\n\n", "a: |+\n  x\n\n\n"),
            ("\nx", "a: |2-\n\n  x\n"),
            ("x \ny", "a: \"x \\ny\"\n"),
            ("x\ty", "a: \"x\\ty\"\n"),
        ] {
            assert_eq!(to_string(&json!({"a": text})), written);
        }
    }

    #[test]
    fn folds_long_texts_at_spaces() {
        let word = "x".repeat(40);
        let text = format!("{word} {word} {word} {word}");
        let written = to_string(&json!({"a": text.clone()}));
        assert_eq!(written, format!("a: {word} {word}\n  {word} {word}\n"));
        assert_eq!(read(&written), json!({"a": text}));
        let quoted = format!("'{text}': {text}");
        let written = to_string(&json!([quoted.clone()]));
        assert!(written.lines().count() > 2, "{written}");
        assert_eq!(read(&written), json!([quoted]));
    }

    #[test]
    fn writes_long_keys_on_lines_of_their_own() {
        let key = "k".repeat(129);
        let written = to_string(&json!({key.clone(): {"a": [1]}}));
        assert_eq!(written, format!("? {key}\n: a:\n  - 1\n"));
        assert_eq!(read(&written), json!({key: {"a": [1]}}));
    }

    #[test]
    fn texts_survive_a_round_trip() {
        for text in [
            "",
            " ",
            "<<",
            "a\u{2028}b",
            "a\u{2029}b\nc\n",
            "\u{2028}",
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
            "k: v\nx: y",
            "|",
            ">",
            "12e03",
            "0.0.0.0/0",
            "3h",
            "a\n\n\nb\n\n\n",
            "\u{1f600}",
            "a:",
            "\u{0}",
            "\r",
            "x\r\ny",
            "\u{feff}",
            "-1-",
            ":a",
            "a, b",
        ] {
            let tree = json!({"key": text, "list": [text, {"deep": text}], "under": {text: {"x": 1}}});
            let written = to_string(&tree);
            assert_eq!(read(&written), tree, "{text:?}:\n{written}");
        }
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[ -~\n]{0,12}".prop_map(Value::from),
            "[a-z' ]{60,120}".prop_map(Value::from),
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
            prop_assert_eq!(read(&to_string(&tree)), tree);
        }
    }
}
