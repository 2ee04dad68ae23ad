//! Every path that ARCHITECTURE.md names exists.
//!
//! A path is a text in backticks that ends with `/` or with the extension of a source file. It is looked up from the root, and in a section
//! about crates also in each of them and in their `src`.

use std::{fs, io, path::Path};

const PAGE: &str = "ARCHITECTURE.md";

/// Extensions of files that the page names.
const EXTENSIONS: [&str; 7] = ["rs", "md", "sh", "table", "toml", "tsv", "types"];

/// Returns one line for each path that does not exist.
pub(crate) fn complaints(root: &Path) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(root.join(PAGE))?;
    let mut crates: Vec<String> = Vec::new();
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with('#') {
            crates = quoted(line).map(str::to_owned).collect();
        }
        for path in quoted(line).filter(|text| is_path(text)) {
            if !exists(root, &crates, path) {
                complaints.push(format!("{PAGE}:{number}: `{path}` does not exist"));
            }
        }
    }
    Ok(complaints)
}

/// The texts in backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether a text is a path: without placeholders, spaces and URLs.
fn is_path(text: &str) -> bool {
    let is_plain = text
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || "_-./".contains(character));
    let extension = Path::new(text)
        .extension()
        .and_then(|extension| extension.to_str());
    let is_file = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
    is_plain && !text.starts_with(['/', '.']) && (is_file || text.ends_with('/'))
}

fn exists(root: &Path, crates: &[String], path: &str) -> bool {
    let in_crates = crates.iter().flat_map(|name| {
        let directory = root.join(name);
        [directory.join("src").join(path), directory.join(path)]
    });
    root.join(path).exists() || in_crates.into_iter().any(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_paths_from_other_texts() {
        assert!(is_path("crates/api/src/lib.rs"));
        assert!(is_path("server/"));
        assert!(!is_path("kubectl get pods"));
        assert!(!is_path("<kind>/controller.rs"));
        assert!(!is_path("/registry/"));
        assert!(!is_path("DeploymentController"));
    }

    #[test]
    fn finds_a_path_that_does_not_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask is in the workspace");
        assert!(exists(root, &["xtask".to_owned()], "architecture_paths.rs"));
        assert!(!exists(root, &["xtask".to_owned()], "no_such_file.rs"));
    }
}
