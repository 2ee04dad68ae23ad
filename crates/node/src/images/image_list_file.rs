//! The file with the list of pulled images. Blocks on file I/O.

use std::{collections::BTreeSet, fs, io, path::Path};

/// One image ID per line. A missing file is an empty list.
pub(super) fn read(path: &Path) -> io::Result<BTreeSet<String>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        text => text?,
    };
    let ids = text.lines().filter(|id| !id.is_empty());
    Ok(ids.map(ToOwned::to_owned).collect())
}

/// Renamed into place: a crash leaves the old list or the new one, never half of one.
pub(super) fn write(path: &Path, ids: &BTreeSet<String>) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let mut text = String::new();
    for id in ids {
        text.push_str(id);
        text.push('\n');
    }
    fs::write(&partial, text)?;
    fs::rename(&partial, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_list_is_empty_and_an_unreadable_one_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        assert_eq!(read(&path).unwrap(), BTreeSet::new());
        fs::write(&path, b"sha256:a\n\xff\n").unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
