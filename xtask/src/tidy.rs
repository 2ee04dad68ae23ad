//! The tidiness rules that no other tool checks.
//!
//! Sources are ASCII and name no path of somebody's machine; no file is so long that nobody reads it; an
//! ignored test says why; each crate says in its first line what it is and stands in ARCHITECTURE.md;
//! versions of dependencies stand once, at the root; certificates have one reader.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::certificate_code;

/// Longer files hold more than one idea.
const MAX_LINES: usize = 800;

/// Folders that are not ours, or not sources.
const SKIPPED: [&str; 3] = [".git", "node_modules", "target"];

/// Kinds of files that are ours to write.
const TEXTS: [&str; 6] = ["css", "md", "rs", "sh", "toml", "ts"];

/// What is wrong in the tree under `root`, a line each.
pub(crate) fn complaints(root: &Path) -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap_or_default();
    let mut complaints = Vec::new();
    for file in &files {
        let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
        let bytes = fs::read(file)?;
        let text = String::from_utf8_lossy(&bytes);
        complaints.extend(about_text(&name, &text));
        if file.extension().is_some_and(|extension| extension == "rs") {
            complaints.extend(about_rust(&name, &text));
            complaints.extend(certificate_code::complaints(&name, &text));
        }
        if let Some(folder) = name.strip_suffix("/Cargo.toml") {
            complaints.extend(about_manifest(&name, &text));
            complaints.extend(about_crate(folder, &root.join(folder), &architecture)?);
        }
    }
    Ok(complaints)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            if !SKIPPED.iter().any(|skipped| name == *skipped) {
                collect(&path, files)?;
            }
        } else if path
            .extension()
            .is_some_and(|extension| TEXTS.iter().any(|text| extension == *text))
        {
            files.push(path);
        }
    }
    Ok(())
}

fn about_text(name: &str, text: &str) -> Vec<String> {
    // Composed, or this file would complain about itself.
    let machine_paths = ["work", "home", "Users"].map(|folder| format!("/{folder}/"));
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(character) = line.chars().find(|character| !character.is_ascii()) {
            complaints.push(format!(
                "{name}:{number}: `{}` is not ASCII",
                character.escape_unicode()
            ));
        }
        if let Some(path) = machine_paths.iter().find(|path| line.contains(path.as_str())) {
            complaints.push(format!("{name}:{number}: `{path}...` is a path of one machine"));
        }
    }
    complaints
}

fn about_rust(name: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        complaints.push(format!(
            "{name}: {lines} lines, more than {MAX_LINES}; find the ideas in it"
        ));
    }
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("#[ignore]") {
            complaints.push(format!(
                "{name}:{number}: say why the test is ignored: #[ignore = \"needs ...\"]"
            ));
        }
    }
    complaints
}

fn about_manifest(name: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut in_dependencies = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with('[') {
            in_dependencies = line.trim_end_matches(']').ends_with("dependencies");
        } else if in_dependencies && line.contains('=') && !line.contains("workspace = true") {
            complaints.push(format!(
                "{name}:{number}: versions stand once, in [workspace.dependencies]; write `workspace = true`"
            ));
        }
    }
    complaints
}

fn about_crate(folder: &str, path: &Path, architecture: &str) -> io::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for root in ["src/lib.rs", "src/main.rs"] {
        let file = path.join(root);
        if file.exists() && !fs::read_to_string(&file)?.starts_with("//! ") {
            complaints.push(format!(
                "{folder}/{root}: the first line says what the crate is: //! ..."
            ));
        }
    }
    if !architecture.contains(&format!("`{folder}`")) {
        complaints.push(format!("{folder}: ARCHITECTURE.md does not name `{folder}`"));
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_have_one_reader() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let all = complaints(root).unwrap();
        let others: Vec<_> = all
            .iter()
            .filter(|line| line.contains("belongs into crates/pki"))
            .collect();
        assert!(others.is_empty(), "{others:#?}");
    }

    #[test]
    fn text_that_is_not_ascii_is_found_with_its_line() {
        assert_eq!(
            about_text("a.rs", "fine\nna\u{ef}ve\n"),
            ["a.rs:2: `\\u{ef}` is not ASCII"]
        );
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        let line = format!("see /{}/me/notes", "home");
        assert_eq!(about_text("a.md", &line).len(), 1);
        assert!(about_text("a.md", "see /usr/sbin and homework").is_empty());
    }

    #[test]
    fn an_ignored_test_says_why() {
        assert_eq!(about_rust("a.rs", &format!("    {}]\n", "#[ignore")).len(), 1);
        assert!(about_rust("a.rs", "    #[ignore = \"needs a disk to fill\"]\n").is_empty());
    }

    #[test]
    fn a_file_may_have_so_many_lines_and_no_more() {
        assert!(about_rust("a.rs", &"x\n".repeat(MAX_LINES)).is_empty());
        assert_eq!(about_rust("a.rs", &"x\n".repeat(MAX_LINES + 1)).len(), 1);
    }

    #[test]
    fn a_version_beside_the_root_is_found_in_every_kind_of_dependencies() {
        for section in [
            "dependencies",
            "dev-dependencies",
            "target.'cfg(unix)'.build-dependencies",
        ] {
            let bad =
                format!("[package]\nversion = \"1\"\n[{section}]\nbytes = \"1\"\ntokio.workspace = true\n");
            assert_eq!(about_manifest("Cargo.toml", &bad).len(), 1, "{section}");
        }
    }

    #[test]
    fn a_crate_introduces_itself_and_stands_in_the_map() {
        let path = std::env::temp_dir().join(format!("k3-tidy-{}", std::process::id()));
        fs::create_dir_all(path.join("src")).unwrap();
        fs::write(path.join("src/lib.rs"), "mod a;\n").unwrap();
        assert_eq!(about_crate("crates/a", &path, "").unwrap().len(), 2);
        fs::write(path.join("src/lib.rs"), "//! Letters.\nmod a;\n").unwrap();
        assert!(
            about_crate("crates/a", &path, "the crate `crates/a`")
                .unwrap()
                .is_empty()
        );
        fs::remove_dir_all(&path).unwrap();
    }
}
