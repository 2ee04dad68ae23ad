//! Writes the files of a volume, and replaces all of them atomically.
//!
//! ```text
//! volume/
//!   key          -> ..data/key
//!   directory    -> ..data/directory
//!   ..data       -> ..2026_11_16_19_00_00.123456789
//!   ..2026_11_16_19_00_00.123456789/
//!     key
//!     directory/other
//! ```
//!
//! Promises:
//! - A reader that opens files through one resolved `..data` sees one version of all files.
//! - A crash leaves either the old or the new version. The next write removes leftovers.
//! - An unchanged payload is not written.
//!
//! Containers mount the volume read-only, so nothing else changes it.
// upstream: pkg/volume/util/atomic_writer.go AtomicWriter

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use k8s_openapi::jiff::Timestamp;

use super::{directory_walk, payload::VolumePayload};

const DATA_LINK: &str = "..data";
const NEW_DATA_LINK: &str = "..data_tmp";

/// Writes the payload into the volume, if it changed. Calls `set_ownership` before the new files become visible. Returns whether
/// files were written.
// upstream: pkg/volume/util/atomic_writer.go Write
pub(super) fn write(
    volume: &Path,
    payload: &VolumePayload,
    now: Timestamp,
    set_ownership: impl FnOnce() -> io::Result<()>,
) -> io::Result<bool> {
    let old_directory = match fs::read_link(volume.join(DATA_LINK)) {
        Ok(name) => Some(volume.join(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let old_paths = match &old_directory {
        Some(directory) => list_files(directory)?,
        None => BTreeSet::new(),
    };
    let should_write = match &old_directory {
        Some(directory) => old_paths != payload_paths(payload) || !has_payload(directory, payload)?,
        None => true,
    };
    if should_write {
        let (name, path) = new_timestamp_directory(volume, now)?;
        let written = write_payload_to_directory(&path, payload)
            .and_then(|()| set_ownership())
            .and_then(|()| replace_data_link(volume, &name));
        if let Err(error) = written {
            // No container has seen the new directory, so it can be removed.
            let _ = directory_walk::remove_all(&path);
            return Err(error);
        }
    }
    // Also without a write: a crash may have happened between the two steps.
    create_user_visible_links(volume, payload)?;
    if should_write {
        remove_user_visible_links(volume, payload, &old_paths)?;
        remove_old_timestamp_directories(volume)?;
    }
    Ok(should_write)
}

/// Creates a directory for a new version. Tries further names if the clock did not advance since the last version.
// upstream: pkg/volume/util/atomic_writer.go newTimestampDir
fn new_timestamp_directory(volume: &Path, now: Timestamp) -> io::Result<(String, PathBuf)> {
    let time = now.strftime("..%Y_%m_%d_%H_%M_%S");
    let nanoseconds = now.subsec_nanosecond().unsigned_abs();
    for attempt in 0..1000 {
        let name = format!("{time}.{:010}", nanoseconds + attempt);
        let path = volume.join(&name);
        match fs::create_dir(&path) {
            Ok(()) => {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
                return Ok((name, path));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        "all names for a timestamped directory are in use",
    ))
}

// upstream: pkg/volume/util/atomic_writer.go writePayloadToDir
fn write_payload_to_directory(directory: &Path, payload: &VolumePayload) -> io::Result<()> {
    for (path, projection) in payload.iter() {
        let path = directory.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        io::Write::write_all(&mut file, &projection.data)?;
        if projection.fs_user.is_some() {
            std::os::unix::fs::fchown(&file, projection.fs_user, None)?;
        }
        // After chown, which clears the setuid and setgid bits. Set explicitly, because open(2) applies the umask.
        file.set_permissions(fs::Permissions::from_mode(projection.mode))?;
    }
    Ok(())
}

/// Points `..data` to a version. rename(2) makes the switch atomic.
fn replace_data_link(volume: &Path, name: &str) -> io::Result<()> {
    let new_link = volume.join(NEW_DATA_LINK);
    // A crash may have left the link.
    remove_file_if_exists(&new_link)?;
    symlink(name, &new_link)?;
    fs::rename(&new_link, volume.join(DATA_LINK))
}

/// Creates symlinks into `..data`, one for each top-level file or directory of the payload.
// upstream: pkg/volume/util/atomic_writer.go createUserVisibleFiles
fn create_user_visible_links(volume: &Path, payload: &VolumePayload) -> io::Result<()> {
    for name in top_level_names(payload) {
        match symlink(Path::new(DATA_LINK).join(name), volume.join(name)) {
            // The link exists, or a directory that another volume is mounted on.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => result?,
        }
    }
    Ok(())
}

/// Removes symlinks of files that the payload no longer contains.
// upstream: pkg/volume/util/atomic_writer.go removeUserVisiblePaths
fn remove_user_visible_links(
    volume: &Path,
    payload: &VolumePayload,
    old_paths: &BTreeSet<String>,
) -> io::Result<()> {
    let current: BTreeSet<_> = top_level_names(payload).collect();
    let removed: BTreeSet<_> = old_paths
        .iter()
        .map(|path| top_level_name(path))
        .filter(|name| !current.contains(name))
        .collect();
    for name in removed {
        let path = volume.join(name);
        // Never a directory: another volume may be mounted on it.
        if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_symlink()) {
            remove_file_if_exists(&path)?;
        }
    }
    Ok(())
}

/// Removes all versions except the current one, including versions that a crash left.
fn remove_old_timestamp_directories(volume: &Path) -> io::Result<()> {
    let current = fs::read_link(volume.join(DATA_LINK))?;
    for entry in fs::read_dir(volume)? {
        let entry = entry?;
        let name = entry.file_name();
        let time = name.to_str().and_then(|name| name.strip_prefix(".."));
        let is_timestamp = time.is_some_and(|time| time.starts_with(|c: char| c.is_ascii_digit()));
        if is_timestamp && current.as_os_str() != name && entry.file_type()?.is_dir() {
            directory_walk::remove_all(&entry.path())?;
        }
    }
    Ok(())
}

/// Whether the files in a directory have the content of the payload.
// upstream: pkg/volume/util/atomic_writer.go shouldWritePayload; like upstream, a change of only the mode is ignored
fn has_payload(directory: &Path, payload: &VolumePayload) -> io::Result<bool> {
    for (path, projection) in payload.iter() {
        match fs::read(directory.join(path)) {
            Ok(data) if data == projection.data => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Relative paths of all files in a directory tree.
fn list_files(directory: &Path) -> io::Result<BTreeSet<String>> {
    let mut paths = BTreeSet::new();
    let mut pending = vec![(directory.to_owned(), String::new())];
    while let Some((directory, prefix)) = pending.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                pending.push((entry.path(), format!("{path}/")));
            } else {
                paths.insert(path);
            }
        }
    }
    Ok(paths)
}

fn payload_paths(payload: &VolumePayload) -> BTreeSet<String> {
    payload.iter().map(|(path, _)| path.to_owned()).collect()
}

fn top_level_names(payload: &VolumePayload) -> impl Iterator<Item = &str> {
    payload.iter().map(|(path, _)| top_level_name(path))
}

fn top_level_name(path: &str) -> &str {
    path.split_once('/').map_or(path, |(name, _)| name)
}

fn remove_file_if_exists(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{super::payload::FileProjection, *};

    fn payload(contents: &BTreeMap<String, String>) -> VolumePayload {
        let mut payload = VolumePayload::default();
        for (path, content) in contents {
            payload
                .insert(path, FileProjection::new(content.clone().into_bytes(), 0o644))
                .unwrap();
        }
        payload
    }

    /// Contents of the files that a container sees, by path. Omits names that start with `..`.
    fn visible_files(volume: &Path) -> BTreeMap<String, String> {
        let mut contents = BTreeMap::new();
        for entry in fs::read_dir(volume).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with("..") {
                continue;
            }
            let path = entry.path();
            if path.is_dir() {
                for relative in list_files(&path).unwrap() {
                    contents.insert(
                        format!("{name}/{relative}"),
                        fs::read_to_string(path.join(&relative)).unwrap(),
                    );
                }
            } else {
                contents.insert(name, fs::read_to_string(path).unwrap());
            }
        }
        contents
    }

    #[test]
    fn write_replaces_any_earlier_content() {
        let names = ["a", "b", "d/x", "d/y", "e/f/g", "d2"];
        for seed in 1..40_u64 {
            let volume = tempfile::tempdir().unwrap();
            let mut random = seed;
            // xorshift: good enough, and reproducible by seed.
            let mut next = |below: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % below
            };
            for step in 0..12 {
                let mut expected = BTreeMap::new();
                for name in names {
                    if next(2) == 0 {
                        expected.insert(name.to_owned(), format!("{}", next(3)));
                    }
                }
                let before = visible_files(volume.path());
                match next(4) {
                    // A crash after the files were written.
                    0 => {
                        let now = Timestamp::from_second(step).unwrap();
                        let (_, path) = new_timestamp_directory(volume.path(), now).unwrap();
                        write_payload_to_directory(&path, &payload(&expected)).unwrap();
                        assert_eq!(visible_files(volume.path()), before, "seed {seed} step {step}");
                    }
                    // A crash before the new link was renamed.
                    1 => {
                        let _ = symlink("..nowhere", volume.path().join(NEW_DATA_LINK));
                    }
                    _ => {}
                }
                let mut ownership_set = false;
                let now = Timestamp::from_second(1_700_000_000 + step).unwrap();
                let written = write(volume.path(), &payload(&expected), now, || {
                    ownership_set = true;
                    Ok(())
                });
                let written = written.unwrap();
                assert_eq!(visible_files(volume.path()), expected, "seed {seed} step {step}");
                assert_eq!(written, ownership_set, "seed {seed} step {step}");
                assert_eq!(
                    written,
                    before != expected || step == 0,
                    "seed {seed} step {step}"
                );
                if written {
                    let hidden = fs::read_dir(volume.path()).unwrap().filter(|entry| {
                        let name = entry.as_ref().unwrap().file_name();
                        name.to_str().unwrap().starts_with("..")
                    });
                    assert_eq!(hidden.count(), 2, "seed {seed} step {step}");
                }
            }
        }
    }

    #[test]
    fn concurrent_readers_see_one_version_of_all_files() {
        let temp = tempfile::tempdir().unwrap();
        let volume = temp.path();
        let version = |version: u32| {
            let names = ["one", "two"].map(str::to_owned);
            names
                .into_iter()
                .map(|name| (name, version.to_string()))
                .collect::<BTreeMap<_, _>>()
        };
        write(volume, &payload(&version(0)), Timestamp::UNIX_EPOCH, || Ok(())).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut reads = 0;
                while reads < 50 {
                    let current =
                        volume.join(fs::read_link(volume.join(DATA_LINK)).expect("`..data` always exists"));
                    let contents = ["one", "two"].map(|name| fs::read_to_string(current.join(name)));
                    // The writer may have removed the directory already. Only complete reads count.
                    if let [Ok(one), Ok(two)] = contents {
                        assert_eq!(one, two);
                        reads += 1;
                    }
                }
            });
            let mut number = 0;
            while !reader.is_finished() {
                // The time advances, so that directory names are never reused.
                number += 1;
                let now = Timestamp::from_second(number.into()).unwrap();
                write(volume, &payload(&version(number)), now, || Ok(())).unwrap();
            }
        });
    }

    #[test]
    fn keeps_old_files_if_ownership_cannot_be_set() {
        let volume = tempfile::tempdir().unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let old: BTreeMap<_, _> = [("a".to_owned(), "old".to_owned())].into();
        write(volume.path(), &payload(&old), now, || Ok(())).unwrap();
        let new: BTreeMap<_, _> = [("a".to_owned(), "new".to_owned())].into();
        let result = write(volume.path(), &payload(&new), now, || Err(io::Error::other("no")));
        assert!(result.is_err());
        assert_eq!(visible_files(volume.path()), old);
    }
}
