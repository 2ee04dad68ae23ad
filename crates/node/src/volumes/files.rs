//! The files of a volume that is made from objects of the API.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::KeyToPath;

/// The mode of files that say nothing else.
pub(super) const USUAL_MODE: i32 = 0o644;

/// Files by their path in the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Files(BTreeMap<String, File>);

/// A file.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) data: Vec<u8>,
    pub(super) mode: u32,
    /// Its owner; root if none is given.
    pub(super) user: Option<u32>,
}

// --- Files ---

impl Files {
    /// Puts a file, in place of one with the same path. A path that could lead out of the volume is refused.
    pub(super) fn put(&mut self, path: &str, file: File) -> Result<(), String> {
        self.0.insert(checked(path)?, file);
        Ok(())
    }

    /// Puts all of others.
    pub(super) fn put_all(&mut self, others: Files) {
        self.0.extend(others.0);
    }

    /// By path.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &File)> {
        self.0.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Those of an object with entries: all, or the ones that are asked for, at their paths. `missing` says what it means that
    /// an entry is not there.
    pub(super) fn of_entries(
        entries: &BTreeMap<&str, &[u8]>,
        items: &[KeyToPath],
        default_mode: Option<i32>,
        is_optional: bool,
        missing: impl Fn(&str) -> String,
    ) -> Result<Files, String> {
        let default_mode = default_mode.unwrap_or(USUAL_MODE);
        let mut files = Files::default();
        if items.is_empty() {
            for (key, data) in entries {
                files.put(key, File::new(data.to_vec(), default_mode))?;
            }
        }
        for item in items {
            match entries.get(item.key.as_str()) {
                Some(data) => {
                    let mode = item.mode.unwrap_or(default_mode);
                    files.put(&item.path, File::new(data.to_vec(), mode))?;
                }
                None if is_optional => {}
                None => return Err(missing(&item.key)),
            }
        }
        Ok(files)
    }
}

// --- File ---

impl File {
    pub(super) fn new(data: Vec<u8>, mode: i32) -> Self {
        File {
            data,
            mode: u32::try_from(mode).unwrap_or_default() & 0o7777,
            user: None,
        }
    }
}

impl std::fmt::Debug for File {
    /// Without its content, which may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({} bytes, {:o})", self.data.len(), self.mode)
    }
}

// --- Paths ---

/// A path in a volume, without `.` and doubled slashes; or why it is none.
fn checked(path: &str) -> Result<String, String> {
    if path.is_empty() {
        return Err(format!("invalid path: must not be empty: {path:?}"));
    }
    if path.starts_with('/') {
        return Err(format!("invalid path: must be relative path: {path}"));
    }
    if path.len() > 4096 {
        return Err("invalid path: must be less than or equal to 4096 characters".to_owned());
    }
    let parts: Vec<_> = path.split('/').collect();
    if parts.contains(&"..") {
        return Err(format!("invalid path: must not contain '..': {path}"));
    }
    if parts.iter().any(|part| part.len() > 255) {
        return Err("invalid path: filenames must be less than or equal to 255 characters".to_owned());
    }
    // Names that begin so are the writer's own.
    if parts.first().is_some_and(|part| part.starts_with("..")) {
        return Err(format!("invalid path: must not start with '..': {path}"));
    }
    if path.contains('\0') {
        return Err(format!("invalid path: must not contain a NUL: {path:?}"));
    }
    let kept: Vec<_> = parts
        .into_iter()
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    let clean = kept.join("/");
    // After `.` the first part is another one.
    if clean.is_empty() || clean.starts_with("..") {
        return Err(format!("invalid path: must not start with '..': {path}"));
    }
    Ok(clean)
}

/// Several errors as one, as upstream writes them.
pub(super) fn all_of(mut errors: Vec<String>) -> Result<(), String> {
    errors.dedup();
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(format!("[{}]", errors.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_volume() {
        for (path, clean) in [
            ("a", "a"),
            ("a/b", "a/b"),
            ("./a//b/.", "a/b"),
            ("a..b", "a..b"),
            ("a/..b", "a/..b"),
        ] {
            assert_eq!(checked(path).as_deref(), Ok(clean), "{path}");
        }
        let long = "x".repeat(256);
        for path in [
            "",
            "/a",
            "..",
            "../a",
            "a/../b",
            "..data",
            "..2026",
            "./..data/x",
            ".",
            "a\0b",
            &long,
            &"x/".repeat(2049),
        ] {
            assert!(checked(path).is_err(), "{path}");
        }
    }
}
