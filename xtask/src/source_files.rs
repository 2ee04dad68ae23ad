//! The text files of the project.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Directories that hold no sources of the project.
const SKIPPED: [&str; 3] = [".git", "node_modules", "target"];

/// File name extensions of the files that people write.
const TEXT_EXTENSIONS: [&str; 6] = ["css", "md", "rs", "sh", "toml", "ts"];

/// Lists the text files below `directory`, sorted by path.
pub(crate) fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(directory, &mut files)?;
    files.sort();
    Ok(files)
}

/// Reads the text files below the paths (all when there are none), with their names from `root`.
pub(crate) fn read_all(root: &Path, paths: &[String]) -> io::Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    for file in list(root)? {
        let name = relative_name(root, &file);
        if paths.is_empty() || paths.iter().any(|path| name.starts_with(path.as_str())) {
            let bytes = fs::read(&file)?;
            texts.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    Ok(texts)
}

/// Whether a file of this name is Rust source.
pub(crate) fn is_rust(name: &str) -> bool {
    has_extension(name, "rs")
}

pub(crate) fn has_extension(name: &str, expected: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension == expected)
}

/// The path of a file from `root`, with slashes.
pub(crate) fn relative_name(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            if !SKIPPED.iter().any(|skipped| name == *skipped) {
                collect(&path, files)?;
            }
        } else if path
            .extension()
            .is_some_and(|extension| TEXT_EXTENSIONS.iter().any(|text| extension == *text))
        {
            files.push(path);
        }
    }
    Ok(())
}
