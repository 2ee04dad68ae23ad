//! Files that are replaced all at once.
//!
//! ```text
//! volume/
//!   key          -> ..data/key
//!   folder       -> ..data/folder
//!   ..data       -> ..2026_11_16_19_00_00.123456789
//!   ..2026_11_16_19_00_00.123456789/
//!     key
//!     folder/other
//! ```
//!
//! Promises: who reads through `..data` sees all files of one moment, and no other; a crash at any instant leaves the old or the
//! new files, and is tidied up by the next write; nothing is written if nothing changed. Containers see the volume read-only, so
//! that nobody but us changes it.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use k8s_openapi::jiff::Timestamp;

use super::{files::Files, tree};

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";

/// Brings the files of a volume up to date. `finish` is called before new ones are shown, to give them to their group.
/// Says whether anything was written.
pub(super) fn write(
    volume: &Path,
    files: &Files,
    now: Timestamp,
    finish: impl FnOnce() -> io::Result<()>,
) -> io::Result<bool> {
    let old = match fs::read_link(volume.join(DATA)) {
        Ok(name) => Some(volume.join(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let before = match &old {
        Some(old) => paths_in(old)?,
        None => BTreeSet::new(),
    };
    let is_new = match &old {
        Some(old) => before != paths_of(files) || !has(old, files)?,
        None => true,
    };
    if is_new {
        let (name, path) = folder(volume, now)?;
        let written = fill(&path, files)
            .and_then(|()| finish())
            .and_then(|()| show(volume, &name));
        if let Err(error) = written {
            // Nobody has seen it.
            let _ = tree::remove(&path);
            return Err(error);
        }
    }
    link(volume, files)?;
    if is_new {
        unlink(volume, files, &before)?;
        sweep(volume)?;
    }
    Ok(is_new)
}

/// A folder for new files.
fn folder(volume: &Path, now: Timestamp) -> io::Result<(String, PathBuf)> {
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
        "no name for a folder is free",
    ))
}

fn fill(folder: &Path, files: &Files) -> io::Result<()> {
    for (path, file) in files.iter() {
        let path = folder.join(path);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        let mut options = fs::OpenOptions::new();
        let mut open = options.write(true).create_new(true).mode(0o600).open(&path)?;
        io::Write::write_all(&mut open, &file.data)?;
        if file.user.is_some() {
            std::os::unix::fs::fchown(&open, file.user, None)?;
        }
        // After the owner: a change of that takes special rights away. Whatever the umask is.
        open.set_permissions(fs::Permissions::from_mode(file.mode))?;
    }
    Ok(())
}

/// Shows a folder as the content of the volume.
fn show(volume: &Path, name: &str) -> io::Result<()> {
    let new = volume.join(NEW_DATA);
    remove(&new)?;
    symlink(name, &new)?;
    fs::rename(&new, volume.join(DATA))
}

/// Links for what is in the volume now, one for each file or folder at its top.
fn link(volume: &Path, files: &Files) -> io::Result<()> {
    for name in tops(files) {
        match symlink(Path::new(DATA).join(name), volume.join(name)) {
            // It is there, or is a folder that another volume is mounted on.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => done?,
        }
    }
    Ok(())
}

/// Takes away links to what is no longer in the volume.
fn unlink(volume: &Path, files: &Files, before: &BTreeSet<String>) -> io::Result<()> {
    let now: BTreeSet<_> = tops(files).collect();
    let gone: BTreeSet<_> = before
        .iter()
        .map(|path| top(path))
        .filter(|name| !now.contains(name))
        .collect();
    for name in gone {
        let path = volume.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes folders of files that are not shown any more, also those that a crash left.
fn sweep(volume: &Path) -> io::Result<()> {
    let shown = fs::read_link(volume.join(DATA))?;
    for entry in fs::read_dir(volume)? {
        let entry = entry?;
        let name = entry.file_name();
        let time = name.to_str().and_then(|name| name.strip_prefix(".."));
        let is_ours = time.is_some_and(|time| time.starts_with(|c: char| c.is_ascii_digit()));
        if is_ours && shown.as_os_str() != name && entry.file_type()?.is_dir() {
            tree::remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Whether a folder has these files.
fn has(folder: &Path, files: &Files) -> io::Result<bool> {
    for (path, file) in files.iter() {
        match fs::read(folder.join(path)) {
            Ok(data) if data == file.data => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// The files in a folder, by path.
fn paths_in(folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut paths = BTreeSet::new();
    let mut folders = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                folders.push((entry.path(), format!("{path}/")));
            } else {
                paths.insert(path);
            }
        }
    }
    Ok(paths)
}

fn paths_of(files: &Files) -> BTreeSet<String> {
    files.iter().map(|(path, _)| path.to_owned()).collect()
}

fn tops(files: &Files) -> impl Iterator<Item = &str> {
    files.iter().map(|(path, _)| top(path))
}

fn top(path: &str) -> &str {
    path.split_once('/').map_or(path, |(top, _)| top)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{super::files::File, *};

    fn files(wanted: &BTreeMap<String, String>) -> Files {
        let mut files = Files::default();
        for (path, text) in wanted {
            files
                .put(path, File::new(text.clone().into_bytes(), 0o644))
                .unwrap();
        }
        files
    }

    /// What a container sees: files by path, without what is hidden.
    fn seen(volume: &Path) -> BTreeMap<String, String> {
        let mut seen = BTreeMap::new();
        for entry in fs::read_dir(volume).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with("..") {
                continue;
            }
            let path = entry.path();
            if path.is_dir() {
                for below in paths_in(&path).unwrap() {
                    seen.insert(
                        format!("{name}/{below}"),
                        fs::read_to_string(path.join(&below)).unwrap(),
                    );
                }
            } else {
                seen.insert(name, fs::read_to_string(path).unwrap());
            }
        }
        seen
    }

    #[test]
    fn whatever_was_there_the_volume_has_what_is_wanted() {
        let names = ["a", "b", "d/x", "d/y", "e/f/g", "d2"];
        for seed in 1..40_u64 {
            let folder = tempfile::tempdir().unwrap();
            let mut random = seed;
            let mut next = |below: u64| {
                // xorshift: any numbers will do, if the seed gives them again.
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % below
            };
            for step in 0..12 {
                let mut wanted = BTreeMap::new();
                for name in names {
                    if next(2) == 0 {
                        wanted.insert(name.to_owned(), format!("{}", next(3)));
                    }
                }
                let before = seen(folder.path());
                match next(4) {
                    // A crash after the new folder was filled, or half of it.
                    0 => {
                        let (_, path) =
                            self::folder(folder.path(), Timestamp::from_second(step).unwrap()).unwrap();
                        fill(&path, &files(&wanted)).unwrap();
                        assert_eq!(seen(folder.path()), before, "seed {seed} step {step}");
                    }
                    // A crash before the new link became the link.
                    1 => {
                        let _ = symlink("..nowhere", folder.path().join(NEW_DATA));
                    }
                    _ => {}
                }
                let mut finished = false;
                let now = Timestamp::from_second(1_700_000_000 + step).unwrap();
                let written = write(folder.path(), &files(&wanted), now, || {
                    finished = true;
                    Ok(())
                });
                let written = written.unwrap();
                assert_eq!(seen(folder.path()), wanted, "seed {seed} step {step}");
                assert_eq!(written, finished, "seed {seed} step {step}");
                assert_eq!(written, before != wanted || step == 0, "seed {seed} step {step}");
                if written {
                    let hidden = fs::read_dir(folder.path()).unwrap().filter(|entry| {
                        let name = entry.as_ref().unwrap().file_name();
                        name.to_str().unwrap().starts_with("..")
                    });
                    assert_eq!(hidden.count(), 2, "seed {seed} step {step}");
                }
            }
        }
    }

    #[test]
    fn who_reads_while_files_change_sees_those_of_one_moment() {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path();
        let version = |version: u32| {
            let names = ["one", "two"].map(str::to_owned);
            names
                .into_iter()
                .map(|name| (name, version.to_string()))
                .collect::<BTreeMap<_, _>>()
        };
        write(volume, &files(&version(0)), Timestamp::UNIX_EPOCH, || Ok(())).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut read = 0;
                while read < 50 {
                    let shown =
                        volume.join(fs::read_link(volume.join(DATA)).expect("there are always files"));
                    let both = ["one", "two"].map(|name| fs::read_to_string(shown.join(name)));
                    // The folder may be gone by now; what is read is whole.
                    if let [Ok(one), Ok(two)] = both {
                        assert_eq!(one, two);
                        read += 1;
                    }
                }
            });
            let mut number = 0;
            while !reader.is_finished() {
                // Time goes on, so that no name comes again.
                number += 1;
                let now = Timestamp::from_second(number.into()).unwrap();
                write(volume, &files(&version(number)), now, || Ok(())).unwrap();
            }
        });
    }

    #[test]
    fn what_cannot_be_finished_is_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let old: BTreeMap<_, _> = [("a".to_owned(), "old".to_owned())].into();
        write(folder.path(), &files(&old), now, || Ok(())).unwrap();
        let new: BTreeMap<_, _> = [("a".to_owned(), "new".to_owned())].into();
        let failed = write(folder.path(), &files(&new), now, || Err(io::Error::other("no")));
        assert!(failed.is_err());
        assert_eq!(seen(folder.path()), old);
    }
}
