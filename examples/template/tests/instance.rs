//! Tests that the template can be turned into a new operator by replacing names.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::{collections::BTreeMap, fs, path::Path};

/// The names to replace, longest first, because they are replaced in this order.
const REPLACEMENTS: [(&str, &str); 6] = [
    ("widget-operator", "vase-operator"),
    ("example.com", "flowers.test"),
    ("widgets", "vases"),
    ("Widgets", "Vases"),
    ("widget", "vase"),
    ("Widget", "Vase"),
];

/// The files of a new operator and their templates.
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
    let rename = |text: String| {
        REPLACEMENTS
            .iter()
            .fold(text, |text, (from, to)| text.replace(from, to))
    };
    FILES.iter().map(|(to, from)| (*to, rename(own(from)))).collect()
}

#[test]
fn no_name_of_the_template_remains() {
    for (name, text) in instance() {
        let left = text.to_lowercase().find("widget").or(text.find("example.com"));
        assert_eq!(left, None, "{name}");
    }
}

#[test]
fn every_source_file_is_part_of_a_new_operator() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in fs::read_dir(directory).unwrap() {
        let name = format!("src/{}", file.unwrap().file_name().to_str().unwrap());
        assert!(FILES.iter().any(|(to, _)| *to == name), "{name}");
    }
}

/// The template is compiled with its workspace manifest; a generated project must have the same dependencies.
#[test]
fn generated_manifest_has_the_same_dependencies() {
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
    let here = own("Cargo.toml");
    let alone = own("standalone.toml");
    let root = own("../../Cargo.toml");
    assert_eq!(names(&here), names(&alone));
    for (name, rest) in dependencies(&alone)
        .into_iter()
        .filter(|(name, _)| name != "kubecontroller" && name != "tokio")
    {
        let line = format!("{name} {rest}");
        assert!(
            root.contains(&line),
            "the workspace manifest does not contain {line:?}"
        );
    }
}
