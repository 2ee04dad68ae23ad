//! References to the source that is followed: `// upstream: <path>.go <Func>, <Type>; reason`.
//!
//! Each is checked against the list of files and identifiers of Kubernetes v1.37 where that list is at hand
//! (`../shared/k8s/upstream-symbols.txt`, or the file that `K3_UPSTREAM_SYMBOLS` names). Its shape is checked always, and so is that the
//! directories in which every file follows upstream have a reference in each file.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs, io,
    path::Path,
};

use crate::source_files;

/// Directories in which every source file follows upstream.
const FOLLOWS_UPSTREAM: [&str; 6] = [
    "crates/api/src/kinds/",
    "crates/api/src/apply/",
    "crates/apiserver/src/admission/",
    "crates/cel/src/",
    "crates/controllers/src/",
    "crates/scheduler/src/plugins/",
];

const MARK: &str = "// upstream:";

/// The identifiers of each file of upstream.
struct Symbols {
    files: BTreeMap<String, BTreeSet<String>>,
}

/// Returns one line for each reference that is wrong, and for each file that needs one and has none.
pub(crate) fn complaints(root: &Path, paths: &[String]) -> io::Result<Vec<String>> {
    let symbols = Symbols::load(root)?;
    if symbols.is_none() {
        println!(
            "tidy: the list of upstream's symbols is not at hand: only the shape of references is checked"
        );
    }
    let mut complaints = Vec::new();
    for (name, text) in source_files::read_all(root, paths)? {
        if !source_files::is_rust(&name) || name.starts_with("xtask/") {
            continue;
        }
        let mut references = 0;
        for (number, line) in (1..).zip(text.lines()) {
            let Some((_, reference)) = line.split_once(MARK) else {
                continue;
            };
            references += 1;
            if let Err(problem) = check(reference, symbols.as_ref()) {
                complaints.push(format!("{name}:{number}: {problem}"));
            }
        }
        if references == 0 && needs_reference(&name, &text) {
            complaints.push(format!(
                "{name}: follows upstream without saying where; add `{MARK} <path>.go <Func>`"
            ));
        }
    }
    Ok(complaints)
}

/// What is wrong with a reference.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum ReferenceError {
    #[error("`{0}` is not a path of upstream; write `{MARK} <path>.go <Func>`")]
    Path(String),
    #[error("`{0}` names no function or type; write `{MARK} <path>.go <Func>; reason`")]
    NoSymbol(String),
    #[error("upstream has no file `{0}`")]
    UnknownFile(String),
    #[error("`{path}` of upstream has no `{name}`")]
    UnknownSymbol { path: String, name: String },
}

fn check(reference: &str, symbols: Option<&Symbols>) -> Result<(), ReferenceError> {
    let reference = reference.split(';').next().unwrap_or_default().trim();
    let (path, names) = reference.split_once(' ').unwrap_or((reference, ""));
    if !source_files::has_extension(path, "go") || path.starts_with('/') {
        return Err(ReferenceError::Path(path.to_owned()));
    }
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    if names.iter().any(|name| name.is_empty() || name.contains(' ')) {
        return Err(ReferenceError::NoSymbol(reference.to_owned()));
    }
    let Some(symbols) = symbols else {
        return Ok(());
    };
    let Some(known) = symbols.files.get(path) else {
        return Err(ReferenceError::UnknownFile(path.to_owned()));
    };
    match names.iter().find(|name| !known.contains(last_part(name))) {
        Some(name) => Err(ReferenceError::UnknownSymbol {
            path: path.to_owned(),
            name: (*name).to_owned(),
        }),
        None => Ok(()),
    }
}

/// `Type.Method` and `(*Type).Method` are found by the method.
fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Whether a file must name what it follows: not tests, and not files that only list modules.
fn needs_reference(name: &str, text: &str) -> bool {
    let is_test = name.contains("/tests")
        || name.contains("test_")
        || name.ends_with("_tests.rs")
        || name.contains("/testing");
    let is_list = !text.contains("fn ");
    FOLLOWS_UPSTREAM
        .iter()
        .any(|directory| name.starts_with(directory))
        && !is_test
        && !is_list
}

// --- Symbols ---

impl Symbols {
    fn load(root: &Path) -> io::Result<Option<Self>> {
        let path = env::var_os("K3_UPSTREAM_SYMBOLS")
            .map_or_else(|| root.join("../shared/k8s/upstream-symbols.txt"), Into::into);
        match fs::read_to_string(path) {
            Ok(text) => Ok(Some(Self::parse(&text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn parse(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let files =
            lines.map(|(path, names)| (path.to_owned(), names.split(' ').map(str::to_owned).collect()));
        Self {
            files: files.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols() -> Symbols {
        Symbols::parse("pkg/a/a.go Run validate\npkg/b/b.go Stop\n")
    }

    #[test]
    fn accepts_what_upstream_has() {
        let symbols = symbols();
        for reference in [
            " pkg/a/a.go Run",
            " pkg/a/a.go Run, validate",
            " pkg/a/a.go Controller.Run; the misspelt path is upstream's",
        ] {
            assert_eq!(check(reference, Some(&symbols)), Ok(()), "{reference}");
        }
    }

    #[test]
    fn rejects_files_and_names_that_upstream_does_not_have() {
        let symbols = symbols();
        assert!(check(" pkg/c/c.go Run", Some(&symbols)).is_err());
        assert!(check(" pkg/b/b.go Run", Some(&symbols)).is_err());
    }

    #[test]
    fn rejects_a_reference_of_another_shape() {
        for reference in [
            "",
            " pkg/a/a.go",
            " validation of pods",
            " pkg/a/a.go the run function",
        ] {
            assert!(check(reference, None).is_err(), "{reference}");
        }
    }

    #[test]
    fn files_that_follow_upstream_need_a_reference() {
        let code = "fn reconcile() {}";
        assert!(needs_reference("crates/controllers/src/job/controller.rs", code));
        assert!(!needs_reference("crates/controllers/src/job/tests.rs", code));
        assert!(!needs_reference(
            "crates/controllers/src/job/mod.rs",
            "mod controller;"
        ));
        assert!(!needs_reference("crates/client/src/get.rs", code));
    }
}
