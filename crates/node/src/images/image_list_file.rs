//! The file with the list of pulled images. Blocks on file I/O.

use std::{collections::BTreeSet, fs, io, path::Path};

/// One image ID per line. A missing or unreadable file counts as an empty list.
pub(super) fn read(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let ids = text.lines().filter(|id| !id.is_empty());
    ids.map(ToOwned::to_owned).collect()
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
