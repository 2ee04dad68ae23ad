//! Versions of k3's file formats.
//!
//! Promises: a directory or a file of a newer format is refused before anything in it is changed, and the refusal names
//! the version of k3 that reads it. What carries no format is of format 1: versions before formats were written had
//! no other. `docs/decisions/006-upgrades.md` lists every format.

use std::path::Path;

use serde::Deserialize;

use crate::{failure::Failure, secret_file};

/// The file in a data directory that carries its format. It stands for everything in the directory that has no format
/// of its own: certificates and keys, kubeconfigs, the state of a node.
const FILE: &str = "format";

/// The format of data directories that this version writes. A change of what is in them that an older version would
/// misread adds one, and a migration from the one before.
const DATA_DIR: u32 = 1;

/// The first version of k3 that reads what this one writes.
const NEEDS: &str = "0.1.0";

/// The format of something, and the first version of k3 that reads it.
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

/// Refuses a data directory of a newer format, and notes the format in one that does not carry it.
pub(crate) fn claim_data_dir(directory: &Path) -> Result<(), Failure> {
    if read_data_dir(directory)?.is_none() {
        let text = format!("format={DATA_DIR} needs={NEEDS}\n");
        secret_file::write(&directory.join(FILE), &text).map_err(unusable)?;
    }
    Ok(())
}

/// Refuses a data directory of a newer format, and changes nothing in it.
pub(crate) fn check_data_dir(directory: &Path) -> Result<(), Failure> {
    read_data_dir(directory).map(drop)
}

fn read_data_dir(directory: &Path) -> Result<Option<FileFormat>, Failure> {
    let path = directory.join(FILE);
    let Some(text) = secret_file::read(&path).map_err(unusable)? else {
        return Ok(None);
    };
    let found = FileFormat::parse_line(&text).ok_or_else(|| {
        Failure::new(
            format!("invalid file {}: it does not carry a format", path.display()),
            "restore the data directory from a backup, or remove this file if another program wrote it",
        )
    })?;
    found.check(&format!("the data directory {}", directory.display()), DATA_DIR)?;
    Ok(Some(found))
}

fn unusable(error: secret_file::FileError) -> Failure {
    Failure::new(
        "cannot use the data directory",
        "choose a directory that this user may write to with --data-dir",
    )
    .caused_by(error)
}

// --- FileFormat ---

impl FileFormat {
    /// The format of a JSON document, which stands in its fields `format` and `needs`. A text that is no such document is
    /// of format 1: the full parser reports errors.
    pub(crate) fn of_json(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or(FileFormat {
            format: first_format(),
            needs: None,
        })
    }

    /// Refuses what is newer than the format `known`. `location` begins the message.
    pub(crate) fn check(&self, location: &str, known: u32) -> Result<(), Failure> {
        let own = env!("CARGO_PKG_VERSION");
        if self.format == 0 {
            return Err(Failure::new(
                format!("{location} is damaged: it is of format 0, which no version writes"),
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
        Err(Failure::new(
            format!(
                "{location} is of format {}, this program (k3 {own}) reads up to {known}: it needs {reader}",
                self.format
            ),
            format!("use {reader}, or restore a backup that was made before the upgrade"),
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
    fn a_directory_without_a_format_is_of_the_first_one_and_carries_it_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        claim_data_dir(directory.path()).unwrap();
        let written = fs::read_to_string(directory.path().join(FILE)).unwrap();
        assert_eq!(written, "format=1 needs=0.1.0\n");
        claim_data_dir(directory.path()).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join(FILE)).unwrap(), written);
    }

    #[test]
    fn a_newer_directory_is_refused_and_the_message_names_the_version_that_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let text = "format=2 needs=0.7.0 something=else\n";
        fs::write(directory.path().join(FILE), text).unwrap();
        let refused = claim_data_dir(directory.path()).unwrap_err().to_string();
        assert!(refused.contains("it needs k3 0.7.0 or newer"), "{refused}");
        assert!(refused.contains("is of format 2"), "{refused}");
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
    fn documents_carry_their_format_in_a_field() {
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
