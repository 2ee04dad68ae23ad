//! The files of a volume that contains data of API objects.
// upstream: pkg/volume/util/atomic_writer.go FileProjection

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::KeyToPath;

/// Default mode of files.
pub(super) const DEFAULT_FILE_MODE: i32 = 0o644;

/// Files by path in the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VolumePayload(BTreeMap<String, FileProjection>);

/// Content, mode and owner of a file.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct FileProjection {
    pub(super) data: Vec<u8>,
    pub(super) mode: u32,
    /// UID of the owner; root if `None`.
    pub(super) fs_user: Option<u32>,
}

// --- VolumePayload ---

impl VolumePayload {
    /// Inserts a file, and replaces one with the same path. Rejects a path that could leave the volume.
    pub(super) fn insert(&mut self, path: &str, file: FileProjection) -> Result<(), String> {
        self.0.insert(validate_path(path)?, file);
        Ok(())
    }

    /// Inserts the files of another payload, and replaces those with the same path.
    pub(super) fn extend(&mut self, other: VolumePayload) {
        self.0.extend(other.0);
    }

    /// Files in the order of their paths.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &FileProjection)> {
        self.0.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Files from the keys of a ConfigMap or Secret: all keys if `items` is empty, else the listed keys at their paths.
    /// `missing_key_error` formats the error for a listed key that does not exist.
    // upstream: pkg/volume/configmap/configmap.go MakePayload
    pub(super) fn from_entries(
        entries: &BTreeMap<&str, &[u8]>,
        items: &[KeyToPath],
        default_mode: Option<i32>,
        is_optional: bool,
        missing_key_error: impl Fn(&str) -> String,
    ) -> Result<VolumePayload, String> {
        let default_mode = default_mode.unwrap_or(DEFAULT_FILE_MODE);
        let mut payload = VolumePayload::default();
        if items.is_empty() {
            for (key, data) in entries {
                payload.insert(key, FileProjection::new(data.to_vec(), default_mode))?;
            }
        }
        for item in items {
            match entries.get(item.key.as_str()) {
                Some(data) => {
                    let mode = item.mode.unwrap_or(default_mode);
                    payload.insert(&item.path, FileProjection::new(data.to_vec(), mode))?;
                }
                None if is_optional => {}
                None => return Err(missing_key_error(&item.key)),
            }
        }
        Ok(payload)
    }
}

// --- FileProjection ---

impl FileProjection {
    /// A file owned by root.
    pub(super) fn new(data: Vec<u8>, mode: i32) -> Self {
        FileProjection {
            data,
            mode: u32::try_from(mode).unwrap_or_default() & 0o7777,
            fs_user: None,
        }
    }
}

impl std::fmt::Debug for FileProjection {
    /// Omits the content, which may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileProjection({} bytes, {:o})", self.data.len(), self.mode)
    }
}

// --- Paths ---

/// Validates a path in a volume, and removes `.` components and repeated slashes.
// upstream: pkg/volume/util/atomic_writer.go validatePath, validatePayload
fn validate_path(path: &str) -> Result<String, String> {
    if path.is_empty() {
        return Err(format!("invalid path: must not be empty: {path:?}"));
    }
    if path.starts_with('/') {
        return Err(format!("invalid path: must be relative path: {path}"));
    }
    if path.len() > 4096 {
        return Err("invalid path: must be less than or equal to 4096 characters".to_owned());
    }
    let components: Vec<_> = path.split('/').collect();
    if components.contains(&"..") {
        return Err(format!("invalid path: must not contain '..': {path}"));
    }
    if components.iter().any(|component| component.len() > 255) {
        return Err("invalid path: filenames must be less than or equal to 255 characters".to_owned());
    }
    // Such names are reserved for the atomic writer: `..data` and timestamped directories.
    if components
        .first()
        .is_some_and(|component| component.starts_with(".."))
    {
        return Err(format!("invalid path: must not start with '..': {path}"));
    }
    if path.contains('\0') {
        return Err(format!("invalid path: must not contain a NUL: {path:?}"));
    }
    let clean: Vec<_> = components
        .into_iter()
        .filter(|component| !matches!(*component, "" | "."))
        .collect();
    let clean = clean.join("/");
    // Again: `./..data` starts with another component than before.
    if clean.is_empty() || clean.starts_with("..") {
        return Err(format!("invalid path: must not start with '..': {path}"));
    }
    Ok(clean)
}

/// Joins several errors like upstream's `NewAggregate`.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/errors/errors.go NewAggregate
pub(super) fn aggregate_errors(mut errors: Vec<String>) -> Result<(), String> {
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
    fn validates_and_cleans_paths() {
        for (path, clean) in [
            ("a", "a"),
            ("a/b", "a/b"),
            ("./a//b/.", "a/b"),
            ("a..b", "a..b"),
            ("a/..b", "a/..b"),
        ] {
            assert_eq!(validate_path(path).as_deref(), Ok(clean), "{path}");
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
            assert!(validate_path(path).is_err(), "{path}");
        }
    }
}
