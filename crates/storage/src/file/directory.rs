//! The directory of the store's files, a trait so that tests can inject disk errors.

use std::{
    ffi::OsStr,
    fmt,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use crate::OpenError;

/// A directory for the store's files, held by one process at a time.
pub trait StoreDirectory: fmt::Debug + Send + Sync + 'static {
    /// Opens a file, and creates it empty if it is not there.
    fn open(&self, name: &str) -> io::Result<Box<dyn StoreFile>>;

    /// Gives a file another name, in replacing any file of that name, durably.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file, if it is there.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Copies a file, durably.
    fn copy(&self, from: &str, to: &str) -> io::Result<()>;

    /// How many bytes can still be written.
    fn free_space(&self) -> io::Result<u64>;

    /// The path for messages.
    fn location(&self) -> String;

    /// Releases the directory for other processes.
    fn release(&self);
}

/// A file that is read and written at offsets.
pub trait StoreFile: fmt::Debug + Send + Sync + 'static {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `out` with the bytes at `offset`; an error if there are not so many.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Cuts or extends it, with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Writes bytes at `offset`.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Returns when everything written before survives a power loss.
    fn sync(&self) -> io::Result<()>;

    /// Lets the next reads see what is on the disk. After a failed sync the memory of the operating system may have what never
    /// reached the disk, and never will: it does not try again.
    fn forget_cached(&self) -> io::Result<()>;
}

/// A directory of the file system. Other users have no access to its files.
#[derive(Debug)]
pub(super) struct FsDirectory {
    path: PathBuf,
    /// Locked until `release`.
    lock: File,
}

#[derive(Debug)]
struct FsFile(File);

// --- FsDirectory ---

impl FsDirectory {
    /// Makes the directory if it is not there, and takes it for this process.
    pub(super) fn lock(path: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io {
            path: path.to_owned(),
            source,
        };
        k3_files::protect_directory(path, is_store_file).map_err(io)?;
        let mut lock = k3_files::open(&path.join("lock"), &mut read_and_write()).map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Only for the message: who holds the lock may not have written his name yet.
                let holder = match lock.read_to_string(&mut holder) {
                    Ok(1..) => format!("process {}", holder.trim()),
                    _ => "another process".to_owned(),
                };
                return Err(OpenError::InUse {
                    directory: path.to_owned(),
                    holder,
                });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        lock.set_len(0).map_err(io)?;
        writeln!(lock, "{}", std::process::id()).map_err(io)?;
        let directory = Self {
            path: path.to_owned(),
            lock,
        };
        // A process may have ended between creating a file and this.
        directory.sync_names().map_err(io)?;
        Ok(directory)
    }

    /// Makes changes of names durable.
    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl StoreDirectory for FsDirectory {
    fn open(&self, name: &str) -> io::Result<Box<dyn StoreFile>> {
        let path = self.path.join(name);
        let new = !path.exists();
        let file = k3_files::open(&path, &mut read_and_write())?;
        if new {
            self.sync_names()?;
        }
        Ok(Box::new(FsFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))?;
        self.sync_names()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn copy(&self, from: &str, to: &str) -> io::Result<()> {
        let to = self.path.join(to);
        let mut copy = k3_files::open(&to, read_and_write().truncate(true))?;
        io::copy(&mut File::open(self.path.join(from))?, &mut copy)?;
        copy.sync_all()?;
        self.sync_names()
    }

    fn free_space(&self) -> io::Result<u64> {
        let disk = rustix::fs::statvfs(&self.path)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    fn location(&self) -> String {
        self.path.display().to_string()
    }

    fn release(&self) {
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "cannot unlock {}; it is free when this process ends", self.location());
        }
    }
}

fn read_and_write() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options
}

/// Whether a store has files of this name: a directory that holds no others was made for one.
fn is_store_file(name: &OsStr) -> bool {
    name.to_str()
        .is_some_and(|name| name == "lock" || name == "mark" || name.starts_with("store.redb"))
}

// --- FsFile ---

impl StoreFile for FsFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn forget_cached(&self) -> io::Result<()> {
        // Only what counts as written is forgotten: what a killed process wrote last is still there.
        Ok(rustix::fs::fadvise(
            &self.0,
            0,
            None,
            rustix::fs::Advice::DontNeed,
        )?)
    }
}
