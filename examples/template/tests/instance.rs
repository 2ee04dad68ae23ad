//! What a new operator is made of: the files of this folder, with other words.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use std::{collections::BTreeMap, fs, path::Path};

/// The words that stand for those of a new operator, longest first: they are replaced in this order.
const WORDS: [(&str, &str); 6] = [
    ("thing-operator", "vase-keeper"),
    ("example.com", "flowers.test"),
    ("things", "vases"),
    ("Things", "Vases"),
    ("thing", "vase"),
    ("Thing", "Vase"),
];

/// The files of a new operator, and what they are made of.
const FILES: [(&str, &str); 6] = [
    ("Cargo.toml", "standalone.toml"),
    ("README.md", "README.md"),
    ("manifests/sample.yaml", "manifests/sample.yaml"),
    ("src/api.rs", "src/api.rs"),
    ("src/main.rs", "src/main.rs"),
    ("src/reconciler.rs", "src/reconciler.rs"),
];

fn own(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn instance() -> BTreeMap<&'static str, String> {
    let words = |text: String| WORDS.iter().fold(text, |text, (from, to)| text.replace(from, to));
    FILES.iter().map(|(to, from)| (*to, words(own(from)))).collect()
}

#[test]
fn no_word_of_the_template_is_left() {
    for (name, text) in instance() {
        let left = text.to_lowercase().find("thing").or(text.find("example.com"));
        assert_eq!(left, None, "{name}");
    }
}

#[test]
fn every_source_is_part_of_a_new_operator() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in fs::read_dir(folder).unwrap() {
        let name = format!("src/{}", file.unwrap().file_name().to_str().unwrap());
        assert!(FILES.iter().any(|(to, _)| *to == name), "{name}");
    }
}

/// What stands here is compiled; a project of its own has to be given the same.
#[test]
fn a_project_of_its_own_depends_on_what_this_one_does() {
    let dependencies = |text: &str| -> Vec<(String, String)> {
        let lines = text.lines().skip_while(|line| !line.ends_with("dependencies]"));
        let pairs = lines
            .take_while(|line| *line != "[lints]")
            .filter_map(|line| line.split_once([' ', '.', '=']));
        pairs
            .map(|(name, rest)| (name.to_owned(), rest.to_owned()))
            .collect()
    };
    let names = |text: &str| {
        dependencies(text)
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    let (here, alone, root) = (own("Cargo.toml"), own("standalone.toml"), own("../../Cargo.toml"));
    assert_eq!(names(&here), names(&alone));
    for (name, rest) in dependencies(&alone)
        .into_iter()
        .filter(|(name, _)| name != "kubecontroller" && name != "tokio")
    {
        let line = format!("{name} {rest}");
        assert!(root.contains(&line), "the root has another {name} than {line:?}");
    }
}
