//! Dependencies that nothing uses: each costs build time and is foreign code in the product.
//!
//! A dependency is used if its name stands as a word in a source of the crate that names it. One that is there for a
//! feature, a macro or shared sources is explained in a comment on the line above: `# Not named here: why`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

const EXEMPTION: &str = "# Not named here";

/// A dependency in a manifest.
#[derive(Debug, PartialEq, Eq)]
struct Dependency {
    name: String,
    line: usize,
    is_exempt: bool,
}

/// Dependencies that are not used, a line each.
pub(crate) fn complaints(root: &Path) -> io::Result<Vec<String>> {
    let mut complaints = Vec::new();
    let mut named = Vec::new();
    for manifest in manifests(root)? {
        let text = fs::read_to_string(&manifest)?;
        let directory = manifest.parent().unwrap_or(root);
        let mut source = String::new();
        read_sources(directory, &mut source)?;
        let shown = manifest.strip_prefix(root).unwrap_or(&manifest).display();
        for dependency in dependencies(&text, is_member_section) {
            named.push(dependency.name.clone());
            if !dependency.is_exempt && !has_word(&source, &dependency.name.replace('-', "_")) {
                complaints.push(format!(
                    "{shown}:{}: {} is not used; remove it",
                    dependency.line, dependency.name
                ));
            }
        }
    }
    let text = fs::read_to_string(root.join("Cargo.toml"))?;
    for dependency in dependencies(&text, |section| section == "workspace.dependencies") {
        if !named.contains(&dependency.name) {
            complaints.push(format!(
                "Cargo.toml:{}: no crate uses {}; remove it",
                dependency.line, dependency.name
            ));
        }
    }
    Ok(complaints)
}

/// The manifests of all crates below the root, which is none itself.
fn manifests(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![root.join("bench/Cargo.toml"), root.join("xtask/Cargo.toml")];
    for parent in ["crates", "examples", "testing"] {
        for entry in fs::read_dir(root.join(parent))? {
            found.push(entry?.path().join("Cargo.toml"));
        }
    }
    found.retain(|manifest| manifest.is_file());
    found.sort();
    Ok(found)
}

fn is_member_section(section: &str) -> bool {
    section.ends_with("dependencies") && section != "workspace.dependencies"
}

fn dependencies(text: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut section = "";
    let mut before = "";
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(rest) = line.strip_prefix('[') {
            section = rest.trim_end_matches(']');
        } else if is_wanted(section)
            && !line.starts_with('#')
            && let Some((name, _)) = line.split_once('=')
        {
            let name = name.trim().trim_end_matches(".workspace");
            found.push(Dependency {
                name: name.to_owned(),
                line: number,
                is_exempt: before.starts_with(EXEMPTION),
            });
        }
        before = line;
    }
    found
}

fn read_sources(directory: &Path, source: &mut String) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            read_sources(&path, source)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            source.push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_with_their_lines_and_exemptions() {
        let text = "[package]\nname = \"a\"\n\n[dependencies]\nhttp.workspace = true\n# Not named here: for std\ntime = { workspace = true }\n";
        let found = dependencies(text, is_member_section);
        let names: Vec<_> = found
            .iter()
            .map(|found| (found.name.as_str(), found.line, found.is_exempt))
            .collect();
        assert_eq!(names, [("http", 5, false), ("time", 7, true)]);
    }

    #[test]
    fn a_name_is_used_if_it_stands_by_itself() {
        assert!(has_word("use http::Request;", "http"));
        assert!(!has_word("use http_body::Body; let xhttp = 1;", "http"));
    }
}
