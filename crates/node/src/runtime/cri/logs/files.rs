//! The files of a log.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use k8s_openapi::jiff::Timestamp;

/// All files of a log, the oldest first, the one that is written to last.
pub(in super::super) fn all(log: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = rotated(log)?;
    if log.exists() {
        files.push(log.to_path_buf());
    }
    Ok(files)
}

/// Whether it is time to begin a new file.
pub(in super::super) fn overgrown(log: &Path, most: u64) -> bool {
    fs::metadata(log).is_ok_and(|file| file.len() > most)
}

/// Moves the file that is written to out of the way, and tells where. The runtime must be told to begin a new one; until then it
/// goes on in the old.
pub(in super::super) fn set_aside(log: &Path) -> io::Result<PathBuf> {
    let written = fs::metadata(log)?.modified()?;
    let written = Timestamp::try_from(written).unwrap_or(Timestamp::UNIX_EPOCH);
    // In the order of time when sorted by name, and two within one second are two names.
    let stamp = written.strftime("%Y%m%d-%H%M%S.%9f");
    let aside = with_suffix(log, &stamp.to_string());
    fs::rename(log, &aside)?;
    Ok(aside)
}

/// Undoes [`set_aside`], after the runtime refused to begin a new file.
pub(in super::super) fn put_back(log: &Path, aside: &Path) -> io::Result<()> {
    fs::rename(aside, log)
}

/// Removes the oldest files that were set aside, until `keep` are left.
pub(in super::super) fn prune(log: &Path, keep: usize) -> io::Result<()> {
    let rotated = rotated(log)?;
    let surplus = rotated.len().saturating_sub(keep);
    rotated[..surplus]
        .iter()
        .try_for_each(|file| gone(fs::remove_file(file)))
}

/// Removes all files of a log.
pub(in super::super) fn remove(log: &Path) -> io::Result<()> {
    prune(log, 0)?;
    gone(fs::remove_file(log))
}

fn rotated(log: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(folder), Some(name)) = (log.parent(), log.file_name()) else {
        return Ok(Vec::new());
    };
    let prefix = with_suffix(Path::new(name), "");
    let prefix = prefix.to_string_lossy();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&*prefix) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn with_suffix(log: &Path, suffix: &str) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// What is gone already is as it should be.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_files_come_first_and_only_the_newest_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("1.log");
        fs::write(folder.path().join("11.log"), "of another").unwrap();
        for number in 0..4 {
            fs::write(&log, format!("{number}")).unwrap();
            if number < 3 {
                set_aside(&log).unwrap();
            }
        }
        let read = |files: Vec<PathBuf>| -> Vec<String> {
            files
                .iter()
                .map(|file| fs::read_to_string(file).unwrap())
                .collect()
        };
        assert_eq!(read(all(&log).unwrap()), ["0", "1", "2", "3"]);
        prune(&log, 1).unwrap();
        assert_eq!(read(all(&log).unwrap()), ["2", "3"]);
        remove(&log).unwrap();
        remove(&log).unwrap();
        assert!(all(&log).unwrap().is_empty());
        assert!(folder.path().join("11.log").exists());
    }

    #[test]
    fn a_file_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("0.log");
        fs::write(&log, "12345").unwrap();
        assert!(overgrown(&log, 4) && !overgrown(&log, 5));
        let aside = set_aside(&log).unwrap();
        assert!(!log.exists());
        put_back(&log, &aside).unwrap();
        assert_eq!(all(&log).unwrap(), [log]);
    }

    #[test]
    fn a_log_that_is_not_there_has_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("none/0.log");
        assert!(all(&log).unwrap().is_empty());
        remove(&log).unwrap();
    }
}
