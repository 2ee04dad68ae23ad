//! What volumes take.

use std::{collections::BTreeSet, io, path::Path};

use rustix::fs::{FileType, stat, statvfs};

use super::tree;

/// What a volume takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeUsage {
    /// Its name in the pod.
    pub volume: String,
    /// Whether it counts against the pod's own storage: not so for what is the machine's or the cluster's.
    pub is_own: bool,
    /// Bytes on disk, or in memory.
    pub used: u64,
    /// Files and folders.
    pub files: u64,
    /// Bytes that its file system has.
    pub capacity: u64,
    /// Bytes that it has left.
    pub available: u64,
}

/// Looks at a folder. What is mounted in it is not counted.
pub(super) fn of(volume: &str, is_own: bool, path: &Path) -> io::Result<VolumeUsage> {
    let own = stat(path)?;
    let mut used = blocks(own.st_blocks);
    let mut files = 1;
    // A file with several names is there once.
    let mut linked = BTreeSet::new();
    if FileType::from_raw_mode(own.st_mode) == FileType::Directory {
        let is_whole = tree::visit(path, |entry| {
            let is_seen = entry.stat.st_nlink > 1
                && FileType::from_raw_mode(entry.stat.st_mode) != FileType::Directory
                && !linked.insert((entry.stat.st_dev, entry.stat.st_ino));
            if !is_seen {
                used += blocks(entry.stat.st_blocks);
                files += 1;
            }
            Ok(())
        })?;
        if !is_whole {
            tracing::warn!(volume, "folders are nested too deep to be counted");
        }
    }
    let system = statvfs(path)?;
    Ok(VolumeUsage {
        volume: volume.to_owned(),
        is_own,
        used,
        files,
        capacity: system.f_blocks.saturating_mul(system.f_frsize),
        available: system.f_bavail.saturating_mul(system.f_frsize),
    })
}

/// The kernel counts in blocks of 512 bytes, whatever the file system does.
fn blocks(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default().saturating_mul(512)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_with_two_names_is_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/one"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(folder.path().join("sub/one"), folder.path().join("two")).unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("all")).unwrap();
        let usage = of("data", true, folder.path()).unwrap();
        assert!((1 << 20..1 << 21).contains(&usage.used), "{usage:?}");
        // The folder, the one in it, the file, the link.
        assert_eq!(usage.files, 4);
        assert!(usage.capacity >= usage.available);
    }
}
