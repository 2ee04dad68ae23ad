//! The project writes the way Kubernetes engineers read: retired words are refused.
//!
//! A rule names a word, what to write instead, and where it is refused. Identifiers are split at underscores and capitals, so
//! `place` is found in `ObjectPlace` and not in `replace`. `allow_list.rs` lists the exceptions, each with its reason; an
//! exception that nothing needs any more is refused too.

mod allow_list;
mod retired;
mod rust_source;
mod type_names;

use std::{
    collections::{BTreeSet, HashMap},
    io,
    path::Path,
    sync::LazyLock,
};

use crate::{source_files, vocabulary::rust_source::Fragment};

use crate::vocabulary::allow_list::ALLOWED;
pub(crate) use crate::vocabulary::{
    retired::{RULES, Rule},
    rust_source::{Role, code_only, read_fragments},
};

/// Files that must name the retired words.
const EXEMPT: [&str; 2] = ["xtask/src/vocabulary/", "xtask/src/paired_bindings.rs"];

/// Returns one line for each retired word in the files below `paths` (all files when it is empty).
pub(crate) fn complaints(root: &Path, paths: &[String]) -> io::Result<Vec<String>> {
    let mut used = BTreeSet::new();
    let mut complaints = Vec::new();
    for (name, text) in source_files::read_all(root, paths)? {
        if EXEMPT.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let mut found = retired_words(&name, &text);
        if source_files::is_rust(&name) {
            found.extend(type_names::retired(&text));
        }
        for (line, word, advice) in found {
            match allow_list::find(ALLOWED, &name, word) {
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
        complaints.extend(allow_list::unused(ALLOWED, &used).map(|entry| {
            format!("no file needs the exception `{entry}` any more; delete it from allow_list.rs")
        }));
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
    if source_files::is_rust(name) {
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
}
