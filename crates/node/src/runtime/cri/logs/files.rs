//! Log files of a container. Blocks on file I/O.
// upstream: pkg/kubelet/logs/container_log_manager.go rotateLog

use std::{
    collections::VecDeque,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use k8s_openapi::jiff::Timestamp;

/// Lists the files of a log, oldest first; the current file is last.
pub(in super::super) fn all(log: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = rotated(log)?;
    if log.exists() {
        files.push(log.to_path_buf());
    }
    Ok(files)
}

/// Returns the files newer than one that was read. If that one was pruned, all remaining files are newer.
pub(super) fn newer(log: &Path, inode: u64) -> io::Result<VecDeque<PathBuf>> {
    let mut files: VecDeque<_> = all(log)?.into();
    let is_read = |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.ino() == inode);
    if let Some(index) = files.iter().position(is_read) {
        files.drain(..=index);
    }
    Ok(files)
}

/// Returns whether the current file exceeds the size limit.
pub(in super::super) fn exceeds_size(log: &Path, max: u64) -> bool {
    fs::metadata(log).is_ok_and(|file| file.len() > max)
}

/// Renames the current file, and returns the new path. The runtime writes to the renamed file until it reopens its log.
pub(in super::super) fn rotate_file(log: &Path) -> io::Result<PathBuf> {
    let written = fs::metadata(log)?.modified()?;
    let written = Timestamp::try_from(written).unwrap_or(Timestamp::UNIX_EPOCH);
    // Names sort by time; nanoseconds make two rotations within a second distinct.
    let stamp = written.strftime("%Y%m%d-%H%M%S.%9f");
    let aside = with_suffix(log, &stamp.to_string());
    fs::rename(log, &aside)?;
    Ok(aside)
}

/// Undoes [`rotate_file`], if the runtime did not reopen the log. A new file, which the runtime created despite an error, stays.
pub(in super::super) fn undo_rotation(log: &Path, aside: &Path) -> io::Result<()> {
    if log.exists() {
        return Ok(());
    }
    fs::rename(aside, log)
}

/// Removes the oldest rotated files, until `keep` are left.
pub(in super::super) fn prune(log: &Path, keep: usize) -> io::Result<()> {
    let rotated = rotated(log)?;
    let surplus = rotated.len().saturating_sub(keep);
    rotated[..surplus]
        .iter()
        .try_for_each(|file| ignore_not_found(fs::remove_file(file)))
}

/// Removes all files of a log.
pub(in super::super) fn remove(log: &Path) -> io::Result<()> {
    prune(log, 0)?;
    ignore_not_found(fs::remove_file(log))
}

fn rotated(log: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(directory), Some(name)) = (log.parent(), log.file_name()) else {
        return Ok(Vec::new());
    };
    let prefix = with_suffix(Path::new(name), "");
    let prefix = prefix.to_string_lossy();
    let entries = match fs::read_dir(directory) {
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

/// Removing a missing file succeeds.
fn ignore_not_found(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prunes_oldest_files() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("1.log");
        fs::write(directory.path().join("11.log"), "of another").unwrap();
        for number in 0..4 {
            fs::write(&log, format!("{number}")).unwrap();
            if number < 3 {
                rotate_file(&log).unwrap();
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
        assert!(directory.path().join("11.log").exists());
    }

    #[test]
    fn undoes_rotation() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("0.log");
        fs::write(&log, "12345").unwrap();
        assert!(exceeds_size(&log, 4) && !exceeds_size(&log, 5));
        let aside = rotate_file(&log).unwrap();
        assert!(!log.exists());
        undo_rotation(&log, &aside).unwrap();
        assert_eq!(all(&log).unwrap(), [log]);
    }

    #[test]
    fn missing_log_has_no_files() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("none/0.log");
        assert!(all(&log).unwrap().is_empty());
        remove(&log).unwrap();
    }
}
