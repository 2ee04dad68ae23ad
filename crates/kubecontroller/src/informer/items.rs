//! The items of a list, while the rest of it still arrives.
//!
//! Promises: whatever the order of the fields of a list, however its bytes are cut, each item comes out as soon as its last
//! byte is there, and nothing but the item that is incomplete is kept. Whether the text is JSON is left to who decodes the
//! pieces: of a text that is not, something comes out that is not JSON either.

use std::borrow::Cow;

use serde::Deserialize;

use super::pieces::Pieces;

/// Takes a list apart.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// The list without its items.
    envelope: Vec<u8>,
    complete: Pieces,
    place: ParserState,
    /// How many brackets are open.
    depth: usize,
    text: Text,
    /// Where the last string of the envelope began.
    string: usize,
    /// Whether the field that is being read is the one with the items.
    has_them: bool,
}

/// What a list says beside its items.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Envelope {
    #[serde(default)]
    pub(super) metadata: EnvelopeMeta,
}

/// Where a list ends.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EnvelopeMeta {
    pub(super) resource_version: Option<String>,
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum ParserState {
    #[default]
    Envelope,
    /// Between two items.
    Between,
    Item,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Text {
    #[default]
    Outside,
    String,
    /// After a backslash in a string.
    Escape,
}

/// The brackets around an item: of the list, and of the array.
const AROUND_ITEM: usize = 2;

// --- Items ---

impl Items {
    /// Takes the next bytes of the list.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let used = match self.place {
                ParserState::Envelope => self.push_envelope(bytes),
                ParserState::Between => self.push_between(bytes),
                ParserState::Item => self.push_item(bytes),
            };
            bytes = &bytes[used..];
        }
    }

    /// The items that are complete.
    pub(super) fn complete(&self) -> &Pieces {
        &self.complete
    }

    /// Takes the items that are complete.
    pub(super) fn take(&mut self) -> Pieces {
        self.complete.take()
    }

    /// What the list says beside its items, once all of it is there.
    pub(super) fn envelope(&self) -> Result<Envelope, serde_json::Error> {
        k3_decode::from_slice(&self.envelope)
    }

    fn push_envelope(&mut self, bytes: &[u8]) -> usize {
        for (at, &byte) in bytes.iter().enumerate() {
            self.envelope.push(byte);
            match self.text {
                Text::Escape => self.text = Text::String,
                Text::String => match byte {
                    b'"' => self.text = Text::Outside,
                    b'\\' => self.text = Text::Escape,
                    _ => {}
                },
                Text::Outside => match byte {
                    b'"' => {
                        self.text = Text::String;
                        self.string = self.envelope.len() - 1;
                    }
                    b'[' if self.depth == 1 && self.has_them => {
                        self.depth = AROUND_ITEM;
                        self.place = ParserState::Between;
                        return at + 1;
                    }
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                    b':' if self.depth == 1 => {
                        self.has_them = self.last_string() == Some(Cow::Borrowed("items"));
                    }
                    _ => {}
                },
            }
        }
        bytes.len()
    }

    /// The string that was read last, as it is meant: a name may be written with escapes.
    fn last_string(&self) -> Option<Cow<'_, str>> {
        #[derive(Deserialize)]
        struct Name<'text>(#[serde(borrow)] Cow<'text, str>);

        let mut texts = serde_json::Deserializer::from_slice(&self.envelope[self.string..]).into_iter();
        let Name(name) = texts.next()?.ok()?;
        Some(name)
    }

    fn push_between(&mut self, bytes: &[u8]) -> usize {
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b',' => {}
                b']' => {
                    self.envelope.push(b']');
                    self.depth = AROUND_ITEM - 1;
                    self.has_them = false;
                    self.place = ParserState::Envelope;
                    return at + 1;
                }
                _ => {
                    self.place = ParserState::Item;
                    return at;
                }
            }
        }
        bytes.len()
    }

    fn push_item(&mut self, bytes: &[u8]) -> usize {
        let (length, ended) = self.scan(bytes);
        self.complete.append(&bytes[..length]);
        if ended {
            self.complete.close();
            self.place = ParserState::Between;
        }
        length
    }

    /// How many bytes belong to the item, and whether it ends with them.
    fn scan(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            match self.text {
                Text::Outside => match byte {
                    b'"' => self.text = Text::String,
                    b'{' | b'[' => self.depth += 1,
                    // An item that is no object ends before what follows it.
                    b',' | b']' if self.depth == AROUND_ITEM => return (at - 1, true),
                    b'}' | b']' => {
                        self.depth -= 1;
                        if self.depth == AROUND_ITEM {
                            return (at, true);
                        }
                    }
                    _ => {}
                },
                Text::String => match byte {
                    b'"' => self.text = Text::Outside,
                    b'\\' => self.text = Text::Escape,
                    // Most of a list is in strings.
                    _ => at += plain(&bytes[at..]),
                },
                Text::Escape => self.text = Text::String,
            }
        }
        (bytes.len(), false)
    }
}

/// How many bytes at the beginning are neither quotes nor backslashes, seen eight at a time; the last few may be left out.
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    // The lowest high bit that is set belongs to the first byte that is zero.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let mut count = 0;
    for eight in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(eight.try_into().expect("a chunk has eight bytes"));
        let ends = zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if ends != 0 {
            return count + (ends.trailing_zeros() / 8) as usize;
        }
        count += 8;
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::Items;

    /// Pushes a text in pieces of these lengths, and takes the items out whenever the flag says so.
    fn split(text: &str, cuts: &[(usize, bool)]) -> (Vec<String>, Items) {
        let (mut items, mut found, mut rest) = (Items::default(), Vec::new(), text.as_bytes());
        let mut cuts = cuts.iter().cycle();
        while !rest.is_empty() {
            let &(length, takes) = cuts.next().unwrap_or(&(usize::MAX, true));
            let (piece, after) = rest.split_at(length.clamp(1, rest.len()));
            items.push(piece);
            rest = after;
            if takes || rest.is_empty() {
                let pieces = items.take();
                found.extend(
                    pieces
                        .iter()
                        .map(|item| String::from_utf8(item.to_vec()).unwrap()),
                );
            }
        }
        (found, items)
    }

    #[test]
    fn items_are_found_wherever_they_stand() {
        for (list, expected) in [
            (r#"{"items":[]}"#, vec![]),
            (r#"{"items":null,"metadata":{}}"#, vec![]),
            (
                r#"{"items":[{"a":[1,{"b":"]}"}]},{}]}"#,
                vec![r#"{"a":[1,{"b":"]}"}]}"#, "{}"],
            ),
            (
                r#" { "items" : [ 1 , "x,]" , [2] ] } "#,
                vec!["1 ", r#""x,]" "#, "[2]"],
            ),
            (r#"{"it\u0065ms":[{}]}"#, vec!["{}"]),
            (
                r#"{"a":"items","b":["items"],"metadata":{"items":[7]},"items":[{"items":[8]}]}"#,
                vec![r#"{"items":[8]}"#],
            ),
            (
                r#"{"items":[{"a":"\\\"}"}],"metadata":{"continue":"t"}}"#,
                vec![r#"{"a":"\\\"}"}"#],
            ),
        ] {
            let (found, items) = split(list, &[]);
            assert_eq!(found, expected, "{list}");
            items.envelope().unwrap();
        }
    }

    #[test]
    fn a_list_that_is_cut_off_is_no_list() {
        let list = r#"{"metadata":{"resourceVersion":"7","continue":"t"},"items":[{"a":1},{"b":2}]}"#;
        for length in 0..list.len() {
            assert!(
                split(&list[..length], &[]).1.envelope().is_err(),
                "{}",
                &list[..length]
            );
        }
        let metadata = split(list, &[]).1.envelope().unwrap().metadata;
        assert_eq!(metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(metadata.next.as_deref(), Some("t"));
    }

    fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i32>().prop_map(Into::into),
            r#"[a-z"\\{}\[\],:\u{e9}\n]{0,8}"#.prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            let name = prop_oneof![Just("items".to_owned()), r#"[a-z"\\]{0,4}"#];
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Into::into),
                vec((name, inner), 0..4)
                    .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn items_are_the_same_however_the_bytes_are_cut(
            items in vec(value(), 0..6),
            before in value(),
            after in value(),
            pretty in any::<bool>(),
            cuts in vec((1..40_usize, any::<bool>()), 1..8),
        ) {
            let write = |value: &serde_json::Value| {
                if pretty { serde_json::to_string_pretty(value).unwrap() } else { value.to_string() }
            };
            let items_text = write(&items.clone().into());
            let list = format!(
                r#"{{"kind":{},"items":{items_text},"metadata":{{"resourceVersion":"12"}},"other":{}}}"#,
                write(&before), write(&after),
            );
            let (found, splitter) = split(&list, &cuts);
            let found: Vec<serde_json::Value> = found.iter().map(|item| serde_json::from_str(item).unwrap()).collect();
            prop_assert_eq!(found, items);
            let envelope = splitter.envelope().unwrap();
            prop_assert_eq!(envelope.metadata.resource_version.as_deref(), Some("12"));
        }
    }
}
