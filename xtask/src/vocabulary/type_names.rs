//! Names that say nothing about a type: past participles and words that fit everything. A reader who finds `Known` in a
//! signature must open its file.

/// A type must not have one of these names. Within a longer name (`StoredObject`, `NodeAddressOrigin`) they are fine.
pub(crate) const TYPE_NAMES: &[&str] = &[
    "Asked", "Answer", "Ask", "Asker", "Bound", "Broken", "Calm", "Chosen", "Closed", "Counted", "Course",
    "Done", "Door", "Ended", "Family", "Found", "Given", "Gone", "Hands", "Held", "Kept", "Kitchen", "Known",
    "Left", "Listed", "Look", "Lost", "Made", "Matched", "Measured", "Named", "News", "Opened", "Owned",
    "Parsed", "Place", "Read", "Seen", "Sent", "Shown", "Started", "Stood", "Stopped", "Stored", "Story",
    "Taken", "Tenants", "Thing", "Told", "Turn", "Used", "Wanted", "Watched", "Way", "World", "Written",
];

const ADVICE: &str = "a noun that says what the type is";

/// Returns the line, the name and the advice of each type definition with such a name.
pub(crate) fn retired(source: &str) -> Vec<(usize, &'static str, &'static str)> {
    let found = (1..).zip(source.lines()).filter_map(|(number, line)| {
        let name = defined_type(line)?;
        let retired = TYPE_NAMES.iter().find(|retired| **retired == name)?;
        Some((number, *retired, ADVICE))
    });
    found.collect()
}

/// Returns the name of the type that a line defines outside of a trait's implementation.
fn defined_type(line: &str) -> Option<&str> {
    let definition = line.trim_start();
    let definition = match definition.strip_prefix("pub") {
        Some(rest) => rest.split_once(' ')?.1,
        None => definition,
    };
    let rest = ["struct ", "enum ", "trait ", "union ", "type "]
        .iter()
        .find_map(|keyword| definition.strip_prefix(keyword))?;
    let end = rest
        .find(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        .unwrap_or(rest.len());
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_participles_as_type_names() {
        let source = "pub(super) struct Known<'a> {\nenum Wanted {\n}\npub type Given = u8;\n";
        let names: Vec<_> = retired(source)
            .into_iter()
            .map(|(line, name, _)| (line, name))
            .collect();
        assert_eq!(names, [(1, "Known"), (2, "Wanted"), (4, "Given")]);
    }

    #[test]
    fn allows_them_within_longer_names_and_elsewhere() {
        assert!(retired("struct StoredObject;\nfn known(known: Known) {}\nlet kept = Kept {};\n").is_empty());
    }
}
