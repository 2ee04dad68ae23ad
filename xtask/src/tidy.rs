//! The tidiness rules that no other tool checks.
//!
//! Sources are ASCII and name no path of one machine. No file has more than 800 lines. An ignored test gives a
//! reason. Each crate describes itself in its first line and is listed in ARCHITECTURE.md. Versions of dependencies
//! are listed once, at the root. Paths in ARCHITECTURE.md exist. Certificates have one reader. The node agent does file I/O on blocking threads. Errors are
//! no texts, and functions take no booleans. Words are those of `vocabulary`, references to upstream those of
//! `upstream_references`.

use std::{fs, io, path::Path};

use crate::{
    Outcome, architecture_paths, blocking_io, certificate_code, paired_bindings, signatures, source_files,
    step, unused, upstream_references, vocabulary, workspace::Workspace,
};

/// Longer files hold more than one idea.
const MAX_LINES: usize = 800;

/// Which files are looked at: those whose path starts with one of these; all when there is none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TidyOptions {
    pub(crate) paths: Vec<String>,
}

/// `cargo xtask tidy`: prints every complaint.
pub(crate) fn run(workspace: &Workspace, options: &TidyOptions) -> Outcome {
    step::headline("tidy");
    match all_complaints(workspace.root(), &options.paths) {
        Ok(complaints) if complaints.is_empty() => Outcome::Done,
        Ok(complaints) => {
            for complaint in &complaints {
                eprintln!("{complaint}");
            }
            eprintln!("tidy: {} complaints", complaints.len());
            Outcome::Failed
        }
        Err(error) => {
            eprintln!("xtask: cannot read the sources: {error}");
            Outcome::Failed
        }
    }
}

fn all_complaints(root: &Path, paths: &[String]) -> io::Result<Vec<String>> {
    let mut complaints = Vec::new();
    if paths.is_empty() {
        complaints.extend(self::complaints(root)?);
        complaints.extend(unused::complaints(root)?);
        complaints.extend(architecture_paths::complaints(root)?);
    }
    complaints.extend(vocabulary::complaints(root, paths)?);
    complaints.extend(paired_bindings::complaints(root, paths)?);
    complaints.extend(blocking_io::complaints(root, paths)?);
    complaints.extend(signatures::complaints(root, paths)?);
    complaints.extend(upstream_references::complaints(root, paths)?);
    Ok(complaints)
}

/// What is wrong in the tree under `root`, a line each.
fn complaints(root: &Path) -> io::Result<Vec<String>> {
    let files = source_files::list(root)?;
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap_or_default();
    let mut complaints = Vec::new();
    for file in &files {
        let name = source_files::relative_name(root, file);
        let bytes = fs::read(file)?;
        let text = String::from_utf8_lossy(&bytes);
        complaints.extend(about_text(&name, &text));
        if file.extension().is_some_and(|extension| extension == "rs") {
            complaints.extend(about_rust(&name, &text));
            complaints.extend(certificate_code::complaints(&name, &text));
        }
        if let Some(directory) = name.strip_suffix("/Cargo.toml") {
            complaints.extend(about_manifest(&name, &text));
            complaints.extend(about_crate(directory, &root.join(directory), &architecture)?);
        }
    }
    Ok(complaints)
}

fn about_text(name: &str, text: &str) -> Vec<String> {
    // Composed, or this file would complain about itself.
    let machine_paths = ["work", "home", "Users"].map(|directory| format!("/{directory}/"));
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

fn about_crate(directory: &str, path: &Path, architecture: &str) -> io::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for root in ["src/lib.rs", "src/main.rs"] {
        let file = path.join(root);
        if file.exists() && !fs::read_to_string(&file)?.starts_with("//! ") {
            complaints.push(format!(
                "{directory}/{root}: the first line must describe the crate: //! ..."
            ));
        }
    }
    if !architecture.contains(&format!("`{directory}`")) {
        complaints.push(format!(
            "{directory}: ARCHITECTURE.md does not name `{directory}`"
        ));
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
    fn rejects_an_ignored_test_without_a_reason() {
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
