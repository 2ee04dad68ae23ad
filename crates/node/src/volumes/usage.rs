//! Disk usage of volumes.

use std::{collections::BTreeSet, io, path::Path};

use rustix::fs::{FileType, stat, statvfs};

use super::directory_walk;

/// Disk usage of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeUsage {
    /// Name of the volume in the pod.
    pub volume: String,
    /// Bytes on disk, or in memory.
    pub used_bytes: u64,
    /// Number of files and directories.
    pub inodes: u64,
    /// Size of the file system in bytes.
    pub capacity_bytes: u64,
    /// Free bytes of the file system.
    pub available_bytes: u64,
}

/// Measures a directory tree. Mounts in it are not counted.
// upstream: pkg/volume/util/fs/fs.go DiskUsage
pub(super) fn measure(volume: &str, path: &Path) -> io::Result<VolumeUsage> {
    let root = stat(path)?;
    let mut used_bytes = block_bytes(root.st_blocks);
    let mut inodes = 1;
    // A file with several hard links is counted once.
    let mut hard_links = BTreeSet::new();
    if FileType::from_raw_mode(root.st_mode) == FileType::Directory {
        let is_complete = directory_walk::walk(path, |entry| {
            let is_counted = entry.stat.st_nlink > 1
                && FileType::from_raw_mode(entry.stat.st_mode) != FileType::Directory
                && !hard_links.insert((entry.stat.st_dev, entry.stat.st_ino));
            if !is_counted {
                used_bytes += block_bytes(entry.stat.st_blocks);
                inodes += 1;
            }
            Ok(())
        })?;
        if !is_complete {
            tracing::warn!(
                volume,
                "disk usage of a volume is incomplete: directories are nested too deep"
            );
        }
    }
    let filesystem = statvfs(path)?;
    Ok(VolumeUsage {
        volume: volume.to_owned(),
        used_bytes,
        inodes,
        capacity_bytes: filesystem.f_blocks.saturating_mul(filesystem.f_frsize),
        available_bytes: filesystem.f_bavail.saturating_mul(filesystem.f_frsize),
    })
}

/// `st_blocks` counts units of 512 bytes, independent of the block size of the file system.
fn block_bytes(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default().saturating_mul(512)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn counts_a_hard_linked_file_once() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("sub")).unwrap();
        fs::write(temp.path().join("sub/one"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(temp.path().join("sub/one"), temp.path().join("two")).unwrap();
        std::os::unix::fs::symlink("/", temp.path().join("all")).unwrap();
        let usage = measure("data", temp.path()).unwrap();
        assert!((1 << 20..1 << 21).contains(&usage.used_bytes), "{usage:?}");
        // The volume, its subdirectory, the file and the symlink.
        assert_eq!(usage.inodes, 4);
        assert!(usage.capacity_bytes >= usage.available_bytes);
    }
}
