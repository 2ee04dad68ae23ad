//! Log files with a maximum size.
//!
//! A line is never split between files. Files are readable by their owner only. `k3.log.1` is the file before `k3.log`, up to
//! `max_files`. A file that another program moved away is created again.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tracing_subscriber::fmt::MakeWriter;

use crate::secret_file;

/// A log file that is rotated at its maximum size.
pub(super) struct LogFile {
    state: Mutex<RotationState>,
}

struct RotationState {
    path: PathBuf,
    max_size: u64,
    max_files: u32,
    file: File,
    length: u64,
}

/// Holds the file while one line is written.
pub(super) struct LogLine<'f>(MutexGuard<'f, RotationState>);

// --- LogFile ---

impl LogFile {
    pub(super) fn open(path: &Path, max_size: u64, max_files: u32) -> io::Result<Self> {
        if let Some(directory) = path
            .parent()
            .filter(|directory| !directory.as_os_str().is_empty())
        {
            secret_file::create_directory(directory).map_err(io::Error::other)?;
        }
        let (file, length) = open(path)?;
        let state = RotationState {
            path: path.to_path_buf(),
            max_size,
            max_files,
            file,
            length,
        };
        Ok(LogFile {
            state: Mutex::new(state),
        })
    }
}

impl<'f> MakeWriter<'f> for LogFile {
    type Writer = LogLine<'f>;

    fn make_writer(&'f self) -> LogLine<'f> {
        LogLine(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for LogLine<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// --- RotationState ---

impl RotationState {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let more = line.len() as u64;
        if self.length > 0 && self.length + more > self.max_size {
            // Writing beyond the maximum size is better than losing lines.
            if self.rotate().is_err() {
                self.length = 0;
            }
        }
        self.file.write_all(line)?;
        self.length += more;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let is_ours = fs::metadata(&self.path)
            .and_then(|there| Ok(there.ino() == self.file.metadata()?.ino()))
            .unwrap_or(false);
        if is_ours {
            for number in (1..self.max_files).rev() {
                // At first there are fewer rotated files.
                let _ = fs::rename(self.rotated_path(number), self.rotated_path(number + 1));
            }
            if self.max_files == 0 {
                fs::remove_file(&self.path)?;
            } else {
                fs::rename(&self.path, self.rotated_path(1))?;
            }
        }
        (self.file, self.length) = open(&self.path)?;
        Ok(())
    }

    fn rotated_path(&self, number: u32) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = k3_files::open(path, OpenOptions::new().append(true).create(true))?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_line(log: &LogFile, text: &str) {
        log.make_writer().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn rotates_and_keeps_a_limited_number_of_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs/k3.log");
        let log = LogFile::open(&path, 10, 2).unwrap();
        for number in 0..5 {
            write_line(&log, &format!("line {number}\n"));
        }
        let read = |name: &str| fs::read_to_string(directory.path().join("logs").join(name)).unwrap();
        assert_eq!(read("k3.log"), "line 4\n");
        assert_eq!(read("k3.log.1"), "line 3\n");
        assert_eq!(read("k3.log.2"), "line 2\n");
        assert_eq!(fs::read_dir(directory.path().join("logs")).unwrap().count(), 3);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn appends_to_an_existing_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k3.log");
        write_line(&LogFile::open(&path, 100, 2).unwrap(), "before\n");
        write_line(&LogFile::open(&path, 100, 2).unwrap(), "after\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "before\nafter\n");
    }

    #[test]
    fn creates_a_moved_file_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k3.log");
        let moved = directory.path().join("theirs");
        let log = LogFile::open(&path, 10, 1).unwrap();
        write_line(&log, "first\n");
        fs::rename(&path, &moved).unwrap();
        write_line(&log, "second\n");
        assert_eq!(fs::read_to_string(&moved).unwrap(), "first\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "second\n");
    }
}
