//! Log files with a maximum size.
//!
//! Promises: a line is never split between files; a file that another program moved away is created again; a line is written
//! even when the rotation before it failed, because a file above its maximum size is better than a lost line.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::{create_directory, open};

/// Lines that wait for the next flush.
const BUFFER: usize = 64 * 1024;

/// A log file that is rotated before it exceeds its maximum size.
pub struct RotatingFile<B> {
    path: PathBuf,
    max_size: u64,
    backups: B,
    file: BufWriter<File>,
    /// Of the file, including what is buffered.
    length: u64,
}

/// Names and retention of rotated files.
pub trait LogBackups {
    /// Moves the file at `path` away, or removes it.
    fn set_aside(&mut self, path: &Path) -> io::Result<()>;

    /// Called after each rotation, with its outcome and the next file already open. May compress and remove old files.
    fn after_rotation(&mut self, path: &Path, rotated: io::Result<()>);
}

/// Rotated files with numbers: `k3.log.1` is the file before `k3.log`.
#[derive(Debug)]
pub struct NumberedBackups {
    /// How many rotated files are kept.
    pub max_files: u32,
}

// --- RotatingFile ---

impl<B: LogBackups> RotatingFile<B> {
    /// Opens the file for appending. It is created with mode 0600, its directory with mode 0700.
    pub fn open(path: &Path, max_size: u64, backups: B) -> io::Result<Self> {
        if let Some(directory) = path
            .parent()
            .filter(|directory| !directory.as_os_str().is_empty())
        {
            create_directory(directory).map_err(|error| {
                let what = format!("cannot create the directory {}: {error}", directory.display());
                io::Error::new(error.kind(), what)
            })?;
        }
        let (file, length) = open_for_append(path)?;
        Ok(Self {
            path: path.to_path_buf(),
            max_size,
            backups,
            file,
            length,
        })
    }

    /// Writes a line, which includes its line end. It is in the file after [`Self::flush`].
    pub fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let more = line.len() as u64;
        if self.length > 0 && self.length + more > self.max_size {
            let rotated = self.rotate();
            if rotated.is_err() {
                // Tries again when as much has been written, not with each line.
                self.length = 0;
            }
            self.backups.after_rotation(&self.path, rotated);
        }
        self.file.write_all(line)?;
        self.length += more;
        Ok(())
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let is_ours = fs::metadata(&self.path)
            .and_then(|there| Ok(there.ino() == self.file.get_ref().metadata()?.ino()))
            .unwrap_or(false);
        if is_ours {
            self.backups.set_aside(&self.path)?;
        }
        (self.file, self.length) = open_for_append(&self.path)?;
        Ok(())
    }
}

fn open_for_append(path: &Path) -> io::Result<(BufWriter<File>, u64)> {
    let file = open(path, OpenOptions::new().append(true).create(true))?;
    let length = file.metadata()?.len();
    Ok((BufWriter::with_capacity(BUFFER, file), length))
}

// --- NumberedBackups ---

impl LogBackups for NumberedBackups {
    fn set_aside(&mut self, path: &Path) -> io::Result<()> {
        for number in (1..self.max_files).rev() {
            // At first there are fewer rotated files.
            let _ = fs::rename(numbered(path, number), numbered(path, number + 1));
        }
        if self.max_files == 0 {
            fs::remove_file(path)
        } else {
            fs::rename(path, numbered(path, 1))
        }
    }

    fn after_rotation(&mut self, _path: &Path, _rotated: io::Result<()>) {}
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(path: &Path, max_size: u64, max_files: u32) -> RotatingFile<NumberedBackups> {
        RotatingFile::open(path, max_size, NumberedBackups { max_files }).unwrap()
    }

    fn write(log: &mut RotatingFile<NumberedBackups>, text: &str) {
        log.write_line(text.as_bytes()).unwrap();
        log.flush().unwrap();
    }

    #[test]
    fn rotates_and_keeps_a_limited_number_of_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs/k3.log");
        let mut log = log(&path, 10, 2);
        for number in 0..5 {
            write(&mut log, &format!("line {number}\n"));
        }
        let read = |name: &str| fs::read_to_string(directory.path().join("logs").join(name)).unwrap();
        assert_eq!(read("k3.log"), "line 4\n");
        assert_eq!(read("k3.log.1"), "line 3\n");
        assert_eq!(read("k3.log.2"), "line 2\n");
        assert_eq!(fs::read_dir(directory.path().join("logs")).unwrap().count(), 3);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn keeps_no_rotated_file_if_none_is_wanted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k3.log");
        let mut log = log(&path, 10, 0);
        write(&mut log, "first line\n");
        write(&mut log, "second line\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "second line\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn appends_to_an_existing_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k3.log");
        write(&mut log(&path, 100, 2), "before\n");
        write(&mut log(&path, 100, 2), "after\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "before\nafter\n");
    }

    #[test]
    fn creates_a_moved_file_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k3.log");
        let moved = directory.path().join("theirs");
        let mut log = log(&path, 10, 1);
        write(&mut log, "first\n");
        fs::rename(&path, &moved).unwrap();
        write(&mut log, "second\n");
        assert_eq!(fs::read_to_string(&moved).unwrap(), "first\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "second\n");
    }

    /// Backups that cannot be made.
    struct FailingBackups {
        failures: usize,
    }

    impl LogBackups for FailingBackups {
        fn set_aside(&mut self, _path: &Path) -> io::Result<()> {
            Err(io::Error::other("no"))
        }

        fn after_rotation(&mut self, _path: &Path, rotated: io::Result<()>) {
            self.failures += usize::from(rotated.is_err());
        }
    }

    #[test]
    fn a_failed_rotation_loses_no_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k3.log");
        let mut log = RotatingFile::open(&path, 10, FailingBackups { failures: 0 }).unwrap();
        for line in ["first\n", "second\n", "3\n"] {
            log.write_line(line.as_bytes()).unwrap();
        }
        log.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\n3\n");
        assert_eq!(log.backups.failures, 1);
    }
}
