//! Does what a recipe says. All of it may wait for the disk.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use k8s_openapi::jiff::Timestamp;

use super::{
    atomic,
    beneath::{self, Missing},
    host_path, mount_table,
    ownership::{Access, Group},
    recipe::{Medium, Recipe},
};

/// Folders above volumes are the node's alone.
const PRIVATE: u32 = 0o750;

/// Where a volume is, once it can be mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) place: Place,
    /// Whether nobody may write to it, whatever a container asks for.
    pub(super) read_only: bool,
    /// Whether it is a folder of the machine that is made when it is mounted.
    pub(super) is_made_late: bool,
    /// Whether what it takes counts as the pod's.
    pub(super) is_own: bool,
}

/// Where a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Host(PathBuf),
    Image(String),
}

/// What hands need beside a recipe.
pub(super) struct Hands<'a> {
    pub(super) now: Timestamp,
    pub(super) group: Option<Group>,
    /// Whether it was said already that secrets are on disk.
    pub(super) told_of_disk: &'a AtomicBool,
}

// --- Hands ---

impl Hands<'_> {
    /// Brings a volume up to date. Doing it again changes nothing.
    pub(super) fn set_up(&self, recipe: &Recipe) -> Result<Ready, String> {
        let ready = |path: &Path, read_only: bool, is_own: bool| Ready {
            place: Place::Host(path.to_owned()),
            read_only,
            is_made_late: false,
            is_own,
        };
        match recipe {
            Recipe::Folder {
                path,
                ready: mark,
                mode,
            } => {
                self.folder(path, mark, *mode)
                    .map_err(|error| told(path, &error))?;
                Ok(ready(path, false, true))
            }
            Recipe::Memory {
                path,
                ready: mark,
                mode,
                size,
            } => {
                self.memory(path, mark, *mode, *size)
                    .map_err(|error| told(path, &error))?;
                Ok(ready(path, false, true))
            }
            Recipe::Files {
                path,
                files,
                medium,
                nested,
            } => {
                let written = self.place_for_files(path, *medium).and_then(|()| {
                    for folder in nested {
                        nested_folder(&path.join(folder))?;
                    }
                    let give = || {
                        self.group
                            .map_or(Ok(()), |group| group.always().give(path, Access::ReadOnly))
                    };
                    atomic::write(path, files, self.now, give)
                });
                written.map_err(|error| told(path, &error))?;
                Ok(ready(path, true, true))
            }
            Recipe::Host {
                path,
                kind,
                read_only,
            } => {
                host_path::check(path, *kind)?;
                let is_made_late = *kind == host_path::Kind::Anything;
                Ok(Ready {
                    is_made_late,
                    ..ready(path, *read_only, false)
                })
            }
            Recipe::Bind {
                source,
                path,
                read_only,
            } => {
                self.bind(source, path, *read_only)
                    .map_err(|error| told(source, &error))?;
                Ok(ready(path, *read_only, false))
            }
            Recipe::Image { reference } => Ok(Ready {
                place: Place::Image(reference.clone()),
                read_only: true,
                is_made_late: false,
                is_own: false,
            }),
        }
    }

    fn folder(&self, path: &Path, mark: &Path, mode: u32) -> io::Result<()> {
        // Containers may have changed its mode since: it is theirs.
        if mark.exists() && path.is_dir() {
            return Ok(());
        }
        make(path, mode)?;
        if let Some(group) = self.group {
            group.always().give(path, Access::ReadWrite)?;
        }
        set_mark(mark)
    }

    fn memory(&self, path: &Path, mark: &Path, mode: u32, size: Option<u64>) -> io::Result<()> {
        let is_there = mount_table::at(path)?.is_some_and(|mounted| mounted.kind == "tmpfs");
        if mark.exists() && is_there {
            return Ok(());
        }
        make(path, mode)?;
        if !is_there {
            // After a restart of the machine nothing is left of it but the folder.
            mount_table::tmpfs(path, size)?;
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        if let Some(group) = self.group {
            group.always().give(path, Access::ReadWrite)?;
        }
        set_mark(mark)
    }

    /// A folder for files of the API, in memory if they are secret and that is possible.
    fn place_for_files(&self, path: &Path, medium: Medium) -> io::Result<()> {
        if path.join("..data").symlink_metadata().is_ok() {
            return Ok(());
        }
        make(path, 0o777)?;
        let Medium::Memory(size) = medium else {
            return Ok(());
        };
        if mount_table::at(path)?.is_some() {
            return Ok(());
        }
        match mount_table::tmpfs(path, size) {
            Err(error) if mount_table::is_refused(&error) => {
                if !self.told_of_disk.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "the node may not mount memory: secrets and tokens of pods are kept in folders that only root reads");
                }
                // The volume itself must be readable for whoever runs in the container; the way to it is not.
                let above = path.parent().unwrap_or(path);
                fs::set_permissions(above, fs::Permissions::from_mode(0o700))
            }
            mounted => {
                mounted?;
                fs::set_permissions(path, fs::Permissions::from_mode(0o777))
            }
        }
    }

    fn bind(&self, source: &Path, path: &Path, read_only: bool) -> io::Result<()> {
        if mount_table::at(path)?.is_some() {
            return Ok(());
        }
        private_folder(path)?;
        let open = beneath::open(source, Path::new(""), Missing::Refuse)?;
        let others = mount_table::showing(source)?;
        mount_table::bind(std::os::fd::AsFd::as_fd(&open), path)?;
        if read_only {
            return mount_table::make_read_only(path);
        }
        match self.group {
            // Whoever mounted it first has given it to a group: another would take it away from that pod.
            Some(group) if others == 0 => group.give(path, Access::ReadWrite),
            _ => Ok(()),
        }
    }
}

/// Makes a folder with a mode, whatever the umask is, and private ones above it.
fn make(path: &Path, mode: u32) -> io::Result<()> {
    if let Some(above) = path.parent() {
        private_folder(above)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Makes a folder that another volume is mounted on. A file that is there already can be mounted on, too.
fn nested_folder(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().recursive(true).mode(0o755).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Makes folders that only the node reads.
pub(super) fn private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(PRIVATE).create(path)
}

fn set_mark(mark: &Path) -> io::Result<()> {
    if let Some(above) = mark.parent() {
        private_folder(above)?;
    }
    fs::write(mark, "")
}

fn told(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::{
        super::files::{File, Files},
        *,
    };

    #[test]
    fn where_nothing_may_be_mounted_secrets_are_in_folders_of_root() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubernetes.io~secret/keys");
        let mut files = Files::default();
        files.put("key", File::new(b"secret".to_vec(), 0o400)).unwrap();
        let medium = Medium::Memory(None);
        let recipe = Recipe::Files {
            path: path.clone(),
            files,
            medium,
            nested: Vec::new(),
        };
        let told_of_disk = AtomicBool::new(false);
        let work = || {
            // Rights are a thread's own.
            let mut rights = capabilities(None).unwrap();
            rights.effective.remove(CapabilitySet::SYS_ADMIN);
            set_capabilities(None, rights).unwrap();
            let hands = Hands {
                now: Timestamp::UNIX_EPOCH,
                group: None,
                told_of_disk: &told_of_disk,
            };
            hands.set_up(&recipe).unwrap();
            hands.set_up(&recipe).unwrap();
            let ready = path.with_file_name("ready");
            let memory = Recipe::Memory {
                path: path.with_file_name("ram"),
                ready,
                mode: 0o777,
                size: None,
            };
            assert!(
                hands.set_up(&memory).is_err(),
                "memory that was asked for is not a disk"
            );
        };
        std::thread::scope(|scope| scope.spawn(work).join()).unwrap();
        assert!(told_of_disk.load(Ordering::Relaxed));
        assert_eq!(fs::read_to_string(path.join("key")).unwrap(), "secret");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o777, 0o700));
        assert!(mount_table::at(&path).unwrap().is_none());
        // Later, with the right to mount, it stays where its containers see it.
        let hands = Hands {
            now: Timestamp::UNIX_EPOCH,
            group: None,
            told_of_disk: &told_of_disk,
        };
        hands.set_up(&recipe).unwrap();
        assert!(mount_table::at(&path).unwrap().is_none());
    }
}
