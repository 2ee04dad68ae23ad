//! Files and folders of the machine.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use super::layout::steps_back;

/// What has to be at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nobody looks.
    Anything,
    Directory,
    File,
    Socket,
    CharDevice,
    BlockDevice,
    DirectoryOrCreate,
    FileOrCreate,
    /// A folder that everybody may write to, made if it is not there: one of the class `local-path`.
    OpenDirectoryOrCreate,
}

// --- Kind ---

impl Kind {
    /// That of a volume.
    pub(super) fn of(text: Option<&str>) -> Result<Self, String> {
        Ok(match text.unwrap_or_default() {
            "" => Kind::Anything,
            "Directory" => Kind::Directory,
            "File" => Kind::File,
            "Socket" => Kind::Socket,
            "CharDevice" => Kind::CharDevice,
            "BlockDevice" => Kind::BlockDevice,
            "DirectoryOrCreate" => Kind::DirectoryOrCreate,
            "FileOrCreate" => Kind::FileOrCreate,
            other => return Err(format!("{other} is an invalid volume type")),
        })
    }

    /// What users are told it should be.
    fn words(self) -> &'static str {
        match self {
            Kind::Anything => "file or directory",
            Kind::Directory | Kind::DirectoryOrCreate | Kind::OpenDirectoryOrCreate => "directory",
            Kind::File | Kind::FileOrCreate => "file",
            Kind::Socket => "socket file",
            Kind::CharDevice => "character device",
            Kind::BlockDevice => "block device",
        }
    }

    fn is(self, found: fs::FileType) -> bool {
        match self {
            Kind::Anything => true,
            Kind::Directory | Kind::DirectoryOrCreate | Kind::OpenDirectoryOrCreate => found.is_dir(),
            Kind::File | Kind::FileOrCreate => found.is_file(),
            Kind::Socket => found.is_socket(),
            Kind::CharDevice => found.is_char_device(),
            Kind::BlockDevice => found.is_block_device(),
        }
    }
}

/// Checks what is at a path, and makes it if that is asked for.
pub(super) fn check(path: &Path, kind: Kind) -> Result<(), String> {
    if path.to_str().is_none_or(steps_back) {
        return Err(format!(
            "invalid HostPath `{}`: must not contain '..'",
            path.display()
        ));
    }
    if kind == Kind::Anything {
        return Ok(());
    }
    let found = match fs::metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = match kind {
                Kind::DirectoryOrCreate => make_folder(path, 0o755),
                Kind::OpenDirectoryOrCreate => make_folder(path, 0o777),
                Kind::FileOrCreate => make_file(path),
                _ => {
                    let why = format!("path \"{}\" does not exist", path.display());
                    return Err(undetermined(path, kind, &why));
                }
            };
            return made.map_err(|error| format!("mkdir {}: {error}", path.display()));
        }
        Err(error) => {
            return Err(undetermined(path, kind, &error.to_string()));
        }
    };
    if kind.is(found) {
        return Ok(());
    }
    Err(format!(
        "hostPath type check failed: {} is not a {}, it's a {}",
        path.display(),
        kind.words(),
        name(found)
    ))
}

fn undetermined(path: &Path, kind: Kind, why: &str) -> String {
    let path = path.display();
    let kind = kind.words();
    format!("hostPath type check failed, {path} is not a {kind}, unable to determine its type: {why}")
}

/// What the API calls a type.
fn name(found: fs::FileType) -> &'static str {
    if found.is_dir() {
        "Directory"
    } else if found.is_file() {
        "File"
    } else if found.is_socket() {
        "Socket"
    } else if found.is_char_device() {
        "CharDevice"
    } else if found.is_block_device() {
        "BlockDevice"
    } else {
        "pipe"
    }
}

/// Makes a folder and those above it; the folder itself gets its mode whatever the umask is.
pub(super) fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    if mode != 0o755 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn make_file(path: &Path) -> io::Result<()> {
    let made = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn each_type_is_told_from_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        fs::write(at("file"), "").unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        std::os::unix::fs::symlink(at("dir"), at("link")).unwrap();
        for (path, kind) in [
            (at("dir"), "Directory"),
            (at("link"), "Directory"),
            (at("dir"), "DirectoryOrCreate"),
            (at("file"), "File"),
            (at("file"), "FileOrCreate"),
            (at("socket"), "Socket"),
            ("/dev/null".into(), "CharDevice"),
            (at("missing"), ""),
        ] {
            assert_eq!(
                check(&path, Kind::of(Some(kind)).unwrap()),
                Ok(()),
                "{} {kind}",
                path.display()
            );
        }
        let words = |path: &Path, kind: &str| check(path, Kind::of(Some(kind)).unwrap()).unwrap_err();
        let path = at("dir");
        let expected = format!(
            "hostPath type check failed: {} is not a file, it's a Directory",
            path.display()
        );
        assert_eq!(words(&path, "File"), expected);
        let path = at("missing");
        let expected = format!(
            "hostPath type check failed, {0} is not a directory, unable to determine its type: path \"{0}\" does not exist",
            path.display()
        );
        assert_eq!(words(&path, "Directory"), expected);
        let expected = "hostPath type check failed: /dev/null is not a block device, it's a CharDevice";
        assert_eq!(words(Path::new("/dev/null"), "BlockDevice"), expected);
        assert_eq!(
            words(Path::new("/a/../b"), ""),
            "invalid HostPath `/a/../b`: must not contain '..'"
        );
        assert_eq!(
            Kind::of(Some("Disk")).unwrap_err(),
            "Disk is an invalid volume type"
        );
    }

    #[test]
    fn what_may_be_made_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("a/b");
        check(&made, Kind::DirectoryOrCreate).unwrap();
        assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o7777, 0o755);
        let file = made.join("file");
        check(&file, Kind::FileOrCreate).unwrap();
        assert!(file.is_file());
        let open = made.join("open");
        check(&open, Kind::OpenDirectoryOrCreate).unwrap();
        assert_eq!(fs::metadata(&open).unwrap().permissions().mode() & 0o7777, 0o777);
    }
}
