//! Versions of k3's file formats.
//!
//! A directory or file of a newer format is rejected before anything in it is changed, and the error names the version of k3
//! that reads it. A file without a format version has format 1, because versions that wrote no format had only that one.
//! `docs/decisions/006-upgrades.md` lists every format.

use std::path::Path;

use serde::Deserialize;

use crate::{command_error::CommandError, secret_file};

/// The file in a data directory with its format version. It applies to everything in the directory that has no version of its
/// own: certificates, keys, kubeconfigs, and the state of a node.
const FILE: &str = "format";

/// The format version of data directories that this version writes. A change that an older version would misread increases it
/// and needs a migration from the version before.
const DATA_DIR: u32 = 1;

/// The first version of k3 that reads this format.
const NEEDS: &str = "0.1.0";

/// A format version, and the first version of k3 that reads it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct FileFormat {
    #[serde(default = "first_format")]
    format: u32,
    #[serde(default)]
    needs: Option<String>,
}

fn first_format() -> u32 {
    1
}

/// Rejects a data directory of a newer format, and writes the format file if it is missing.
pub(crate) fn claim_data_dir(directory: &Path) -> Result<(), CommandError> {
    if read_data_dir(directory)?.is_none() {
        let text = format!("format={DATA_DIR} needs={NEEDS}\n");
        secret_file::write(&directory.join(FILE), &text).map_err(unusable)?;
    }
    Ok(())
}

/// Rejects a data directory of a newer format without changing it.
pub(crate) fn check_data_dir(directory: &Path) -> Result<(), CommandError> {
    read_data_dir(directory).map(drop)
}

fn read_data_dir(directory: &Path) -> Result<Option<FileFormat>, CommandError> {
    let path = directory.join(FILE);
    let Some(text) = secret_file::read(&path).map_err(unusable)? else {
        return Ok(None);
    };
    let found = FileFormat::parse_line(&text).ok_or_else(|| {
        CommandError::new(
            format!("invalid file {}: it contains no format version", path.display()),
            "restore the data directory from a backup, or remove this file if another program wrote it",
        )
    })?;
    found.check(&format!("the data directory {}", directory.display()), DATA_DIR)?;
    Ok(Some(found))
}

fn unusable(error: secret_file::FileError) -> CommandError {
    CommandError::new(
        "cannot use the data directory",
        "choose a directory that this user may write to with --data-dir",
    )
    .caused_by(error)
}

// --- FileFormat ---

impl FileFormat {
    /// The format of a JSON document from its fields `format` and `needs`. Invalid JSON has format 1: the full parser reports the
    /// error.
    pub(crate) fn of_json(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or(FileFormat {
            format: first_format(),
            needs: None,
        })
    }

    /// Rejects a newer format than `known`. `location` is the subject of the message.
    pub(crate) fn check(&self, location: &str, known: u32) -> Result<(), CommandError> {
        let own = env!("CARGO_PKG_VERSION");
        if self.format == 0 {
            return Err(CommandError::new(
                format!("{location} is damaged: no version writes format 0"),
                "restore it from a backup",
            ));
        }
        if self.format <= known {
            return Ok(());
        }
        let reader = match &self.needs {
            Some(needs) => format!("k3 {needs} or newer"),
            None => format!("a newer k3 than {own}"),
        };
        Err(CommandError::new(
            format!(
                "{location} has format {}, but k3 {own} reads up to format {known}: it needs {reader}",
                self.format
            ),
            format!("use {reader}, or restore a backup from before the upgrade"),
        ))
    }

    fn parse_line(text: &str) -> Option<Self> {
        let field = |name: &str| {
            text.split_whitespace()
                .find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        Some(FileFormat {
            format: field("format")?.parse().ok()?,
            needs: field("needs").map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_without_a_format_has_format_one_and_gets_a_format_file() {
        let directory = tempfile::tempdir().unwrap();
        claim_data_dir(directory.path()).unwrap();
        let written = fs::read_to_string(directory.path().join(FILE)).unwrap();
        assert_eq!(written, "format=1 needs=0.1.0\n");
        claim_data_dir(directory.path()).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join(FILE)).unwrap(), written);
    }

    #[test]
    fn rejects_a_newer_directory_and_names_the_version_that_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let text = "format=2 needs=0.7.0 something=else\n";
        fs::write(directory.path().join(FILE), text).unwrap();
        let refused = claim_data_dir(directory.path()).unwrap_err().to_string();
        assert!(refused.contains("it needs k3 0.7.0 or newer"), "{refused}");
        assert!(refused.contains("has format 2"), "{refused}");
        assert_eq!(fs::read_to_string(directory.path().join(FILE)).unwrap(), text);
    }

    #[test]
    fn rejects_invalid_formats() {
        let directory = tempfile::tempdir().unwrap();
        for text in ["", "what", "format=x", "format=0", "format=-1"] {
            fs::write(directory.path().join(FILE), text).unwrap();
            assert!(claim_data_dir(directory.path()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn reads_the_format_of_documents() {
        assert!(FileFormat::of_json(b"{}").check("x", 1).is_ok());
        assert!(FileFormat::of_json(b"nonsense").check("x", 1).is_ok());
        let newer = FileFormat::of_json(br#"{"format": 3, "needs": "1.2.0", "other": []}"#);
        let refused = newer
            .check("the identity of the node", 2)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("it needs k3 1.2.0 or newer"), "{refused}");
    }
}
