//! Splits the JSON of a list into its items while the rest of it is still arriving.
//!
//! Guarantees: for any order of the fields and any boundaries between the network frames, each item is available as soon as its
//! last byte has arrived, and only the incomplete item is buffered. The splitter does not validate: input that is not JSON
//! yields pieces that are not JSON, and the decoder rejects them.

use std::borrow::Cow;

use serde::Deserialize;

use super::chunk_buffer::ChunkBuffer;

/// Splits a list into its items and the envelope around them.
#[derive(Debug, Default)]
pub(super) struct ListItemSplitter {
    /// The list without its items.
    envelope: Vec<u8>,
    complete: ChunkBuffer,
    state: SplitterState,
    /// The number of open brackets.
    depth: usize,
    string_state: StringState,
    /// Where the last string of the envelope starts.
    string_start: usize,
    /// Whether the current top-level field is `items`.
    is_items_field: bool,
}

/// A list without its items.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ListEnvelope {
    #[serde(default)]
    pub(super) metadata: ListEnvelopeMeta,
}

/// The `metav1.ListMeta` of a list, as far as it is needed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListEnvelopeMeta {
    pub(super) resource_version: Option<String>,
    #[serde(rename = "continue")]
    pub(super) continue_token: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum SplitterState {
    #[default]
    Envelope,
    BetweenItems,
    Item,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum StringState {
    #[default]
    Outside,
    Quoted,
    /// After a backslash in a string.
    Escape,
}

/// The depth at which items start: inside the list object and its array.
const ITEM_DEPTH: usize = 2;

// --- ListItemSplitter ---

impl ListItemSplitter {
    /// Adds the next bytes of the list.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let used = match self.state {
                SplitterState::Envelope => self.push_envelope(bytes),
                SplitterState::BetweenItems => self.push_between_items(bytes),
                SplitterState::Item => self.push_item(bytes),
            };
            bytes = &bytes[used..];
        }
    }

    /// The complete items.
    pub(super) fn complete(&self) -> &ChunkBuffer {
        &self.complete
    }

    /// Takes the complete items.
    pub(super) fn take(&mut self) -> ChunkBuffer {
        self.complete.take()
    }

    /// The envelope. An error if the list is not complete.
    pub(super) fn envelope(&self) -> Result<ListEnvelope, serde_json::Error> {
        k3_decode::from_slice(&self.envelope)
    }

    fn push_envelope(&mut self, bytes: &[u8]) -> usize {
        for (at, &byte) in bytes.iter().enumerate() {
            self.envelope.push(byte);
            match self.string_state {
                StringState::Escape => self.string_state = StringState::Quoted,
                StringState::Quoted => match byte {
                    b'"' => self.string_state = StringState::Outside,
                    b'\\' => self.string_state = StringState::Escape,
                    _ => {}
                },
                StringState::Outside => match byte {
                    b'"' => {
                        self.string_state = StringState::Quoted;
                        self.string_start = self.envelope.len() - 1;
                    }
                    b'[' if self.depth == 1 && self.is_items_field => {
                        self.depth = ITEM_DEPTH;
                        self.state = SplitterState::BetweenItems;
                        return at + 1;
                    }
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                    b':' if self.depth == 1 => {
                        self.is_items_field = self.last_string() == Some(Cow::Borrowed("items"));
                    }
                    _ => {}
                },
            }
        }
        bytes.len()
    }

    /// The last string of the envelope, unescaped: a server may write the name of a field with escapes.
    fn last_string(&self) -> Option<Cow<'_, str>> {
        #[derive(Deserialize)]
        struct Name<'text>(#[serde(borrow)] Cow<'text, str>);

        let mut strings =
            serde_json::Deserializer::from_slice(&self.envelope[self.string_start..]).into_iter();
        let Name(name) = strings.next()?.ok()?;
        Some(name)
    }

    fn push_between_items(&mut self, bytes: &[u8]) -> usize {
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b',' => {}
                b']' => {
                    self.envelope.push(b']');
                    self.depth = ITEM_DEPTH - 1;
                    self.is_items_field = false;
                    self.state = SplitterState::Envelope;
                    return at + 1;
                }
                _ => {
                    self.state = SplitterState::Item;
                    return at;
                }
            }
        }
        bytes.len()
    }

    fn push_item(&mut self, bytes: &[u8]) -> usize {
        let (length, is_end) = self.scan_item(bytes);
        self.complete.append(&bytes[..length]);
        if is_end {
            self.complete.finish_chunk();
            self.state = SplitterState::BetweenItems;
        }
        length
    }

    /// How many of the bytes belong to the item, and whether the item ends with them.
    fn scan_item(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            match self.string_state {
                StringState::Outside => match byte {
                    b'"' => self.string_state = StringState::Quoted,
                    b'{' | b'[' => self.depth += 1,
                    // A scalar item has no closing bracket: it ends before the separator.
                    b',' | b']' if self.depth == ITEM_DEPTH => return (at - 1, true),
                    b'}' | b']' => {
                        self.depth -= 1;
                        if self.depth == ITEM_DEPTH {
                            return (at, true);
                        }
                    }
                    _ => {}
                },
                StringState::Quoted => match byte {
                    b'"' => self.string_state = StringState::Outside,
                    b'\\' => self.string_state = StringState::Escape,
                    // Most bytes of a list are in strings, so they are skipped eight at a time.
                    _ => at += skip_plain_bytes(&bytes[at..]),
                },
                StringState::Escape => self.string_state = StringState::Quoted,
            }
        }
        (bytes.len(), false)
    }
}

/// How many leading bytes are neither quotes nor backslashes. It reads eight bytes at a time and may leave out the last few.
fn skip_plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    // The lowest set bit of the result marks the first zero byte; higher bits may be false positives.
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

    use super::ListItemSplitter;

    /// Pushes `text` in pieces of the given lengths, and takes the complete items where the flag is set.
    fn split(text: &str, cuts: &[(usize, bool)]) -> (Vec<String>, ListItemSplitter) {
        let mut splitter = ListItemSplitter::default();
        let mut found = Vec::new();
        let mut rest = text.as_bytes();
        let mut cuts = cuts.iter().cycle();
        while !rest.is_empty() {
            let &(length, takes) = cuts.next().unwrap_or(&(usize::MAX, true));
            let (piece, after) = rest.split_at(length.clamp(1, rest.len()));
            splitter.push(piece);
            rest = after;
            if takes || rest.is_empty() {
                let items = splitter.take();
                found.extend(items.iter().map(|item| String::from_utf8(item.to_vec()).unwrap()));
            }
        }
        (found, splitter)
    }

    #[test]
    fn splits_items_whatever_the_order_of_the_fields() {
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
            let (found, splitter) = split(list, &[]);
            assert_eq!(found, expected, "{list}");
            splitter.envelope().unwrap();
        }
    }

    #[test]
    fn rejects_a_truncated_list() {
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
        assert_eq!(metadata.continue_token.as_deref(), Some("t"));
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
        fn splits_the_same_items_for_any_frame_boundaries(
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
