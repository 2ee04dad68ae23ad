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
        let is_ours = name.to_str().is_some_and(|name| name.starts_with("..2"));
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
