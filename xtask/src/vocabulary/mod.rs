//! The project writes the way Kubernetes engineers read: retired words are refused.
//!
//! A rule names a word, what to write instead, and where it is refused. Identifiers are split at underscores and capitals, so
//! `place` is found in `ObjectPlace` and not in `replace`. `vocabulary-allow.tsv` lists the exceptions, each with its reason; an
//! exception that nothing needs any more is refused too.

mod allow_list;
mod retired;
mod rust_source;

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    path::Path,
    sync::LazyLock,
};

use crate::{source_files, vocabulary::rust_source::Fragment};

pub(crate) use crate::vocabulary::{
    allow_list::AllowList,
    retired::{RULES, Rule},
    rust_source::{Role, read_fragments},
};

/// Where the exceptions are, from the root of the workspace.
pub(crate) const ALLOW_LIST: &str = "xtask/vocabulary-allow.tsv";

/// Files that must name the retired words.
const EXEMPT: [&str; 3] = [
    "xtask/src/vocabulary/",
    "xtask/src/paired_bindings.rs",
    ALLOW_LIST,
];

/// Returns one line for each retired word in the files below `paths` (all files when it is empty).
pub(crate) fn complaints(root: &Path, paths: &[String]) -> io::Result<Vec<String>> {
    let allow_list = match fs::read_to_string(root.join(ALLOW_LIST)) {
        Ok(text) => AllowList::parse(&text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => AllowList::default(),
        Err(error) => return Err(error),
    };
    let mut used = BTreeSet::new();
    let mut complaints = Vec::new();
    for (name, text) in source_files::read_all(root, paths)? {
        if EXEMPT.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        for (line, word, advice) in retired_words(&name, &text) {
            match allow_list.find(&name, word) {
                Some(entry) => {
                    used.insert(entry);
                }
                None => complaints.push(format!(
                    "{name}:{line}: `{word}` is a retired word; write {advice}"
                )),
            }
        }
    }
    if paths.is_empty() {
        complaints.extend(
            allow_list
                .unused(&used)
                .map(|entry| format!("{ALLOW_LIST}: no file needs the entry `{entry}` any more; delete it")),
        );
    }
    Ok(complaints)
}

/// Returns the line, the word and the advice of each retired word in one file.
fn retired_words(name: &str, text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let mut found: Vec<_> = path_words(name).chain(text_words(name, text)).collect();
    found.dedup();
    found
}

fn path_words(name: &str) -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    let fragment = Fragment {
        line: 1,
        role: Role::Identifier,
        text: name.replace(['/', '.', '-'], "_"),
    };
    matches_of(&fragment).into_iter()
}

fn text_words(name: &str, text: &str) -> Vec<(usize, &'static str, &'static str)> {
    if Path::new(name)
        .extension()
        .is_some_and(|extension| extension == "rs")
    {
        return read_fragments(text).iter().flat_map(matches_of).collect();
    }
    let lines = (1..).zip(text.lines());
    let fragments = lines.map(|(line, text)| Fragment {
        line,
        role: Role::Prose,
        text: text.to_owned(),
    });
    fragments.flat_map(|fragment| matches_of(&fragment)).collect()
}

fn matches_of(fragment: &Fragment) -> Vec<(usize, &'static str, &'static str)> {
    let words = split_words(&fragment.text, fragment.role);
    let mut rules: Vec<&Rule> = words
        .iter()
        .flat_map(|word| rules_that_start_with(word).iter().copied())
        .collect();
    rules.dedup_by_key(|rule| rule.phrase);
    rules
        .into_iter()
        .filter(|rule| rule.scope.covers(fragment.role) && rule.matches(&words))
        .map(|rule| (fragment.line, rule.phrase, rule.instead))
        .collect()
}

/// Most words start no rule: the table keeps the check of all sources under a second.
fn rules_that_start_with(word: &str) -> &'static [&'static Rule] {
    static BY_FIRST_WORD: LazyLock<HashMap<&str, Vec<&Rule>>> = LazyLock::new(|| {
        let mut rules: HashMap<&str, Vec<&Rule>> = HashMap::new();
        for rule in RULES {
            let first = rule.phrase.split(' ').next().unwrap_or(rule.phrase);
            rules.entry(first).or_default().push(rule);
        }
        rules
    });
    BY_FIRST_WORD.get(word).map_or(&[], Vec::as_slice)
}

/// Splits text into lower-case words. Capitals start a word in identifiers, and in prose within a word (`ObjectPlace`).
fn split_words(text: &str, role: Role) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut previous_is_lower = false;
    for character in text.chars() {
        if character.is_ascii_alphabetic() {
            if character.is_ascii_uppercase() && previous_is_lower && !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            previous_is_lower = character.is_ascii_lowercase();
            word.push(character.to_ascii_lowercase());
            continue;
        }
        previous_is_lower = false;
        // Digits, underscores and punctuation separate; an apostrophe does too.
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        // In prose a phrase does not reach over the end of a sentence.
        if role != Role::Identifier && matches!(character, '.' | ':' | ';' | ',' | '(' | ')') {
            words.push(String::new());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(name: &str, text: &str) -> Vec<&'static str> {
        retired_words(name, text)
            .into_iter()
            .map(|(_, word, _)| word)
            .collect()
    }

    #[test]
    fn finds_retired_words_in_identifiers_of_any_case() {
        assert_eq!(words("a.rs", "struct PodKeeper;"), ["keeper"]);
        assert_eq!(words("a.rs", "const MOST_FIGURES: usize = 1;"), ["figures"]);
        assert_eq!(words("a.rs", "fn is_going() {}"), ["going"]);
        assert!(words("a.rs", "use tokio::task::block_in_place;").is_empty());
        assert!(words("a.md", "It shows where each value came from.").is_empty());
        assert!(words("a.rs", "fn replace(outcome: Welcome) {}").is_empty());
    }

    #[test]
    fn finds_retired_words_in_strings_comments_and_file_names() {
        assert_eq!(words("a.rs", "fn a() { info!(\"the node was told\") }"), ["told"]);
        assert_eq!(words("a.rs", "// The server was told.\nfn a() {}"), ["told"]);
        assert_eq!(words("a.rs", "/// Where a pod goes.\nfn a() {}"), ["goes"]);
        assert_eq!(words("src/keeper.rs", "fn a() {}"), ["keeper"]);
    }

    #[test]
    fn common_words_are_allowed_in_plain_comments_alone() {
        assert!(words("a.rs", "// The request goes to the leader.\nfn a() {}").is_empty());
        assert_eq!(words("a.md", "The request goes to the leader."), ["goes"]);
    }

    #[test]
    fn phrases_are_found_within_a_sentence() {
        assert_eq!(words("a.md", "A call that makes no sense."), ["makes no sense"]);
        assert!(words("a.md", "What it makes. No sense in that.").is_empty());
    }

    #[test]
    fn raw_strings_and_lifetimes_do_not_confuse_the_reader() {
        let text = "fn a<'a>(b: &'a str) -> char { let c = r#\"a \"told\" b\"#; '\"' } // fine";
        assert_eq!(words("a.rs", text), ["told"]);
    }

    #[test]
    fn an_exception_covers_its_path_and_word() {
        let list = AllowList::parse("crates/a/\tverdict\tnf_tables calls it so\n").expect("it is valid");
        assert!(list.find("crates/a/src/b.rs", "verdict").is_some());
        assert!(list.find("crates/b/src/b.rs", "verdict").is_none());
        assert!(list.find("crates/a/src/b.rs", "told").is_none());
    }

    #[test]
    fn an_exception_needs_a_reason_and_a_known_word() {
        assert!(AllowList::parse("crates/a/\tverdict\t\n").is_err());
        assert!(AllowList::parse("crates/a/\tverdict\n").is_err());
        assert!(AllowList::parse("crates/a/\tsunshine\tis nice\n").is_err());
    }

    #[test]
    fn an_exception_that_nothing_needs_is_found() {
        let list = AllowList::parse("crates/a/\tverdict\tnf_tables calls it so\n").expect("it is valid");
        assert_eq!(list.unused(&BTreeSet::new()).count(), 1);
        assert_eq!(list.unused(&BTreeSet::from([0])).count(), 0);
    }
}
