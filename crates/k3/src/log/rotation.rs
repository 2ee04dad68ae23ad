//! The log file: [`RotatingFile`], shared by the threads that log.

use std::{
    io::{self, Write},
    path::Path,
};

use k3_files::{NumberedBackups, RotatingFile};
use parking_lot::{Mutex, MutexGuard};
use tracing_subscriber::fmt::MakeWriter;

/// A log file that is rotated at its maximum size.
pub(super) struct LogFile {
    file: Mutex<RotatingFile<NumberedBackups>>,
}

/// Holds the file while one line is written.
pub(super) struct LogLine<'f>(MutexGuard<'f, RotatingFile<NumberedBackups>>);

// --- LogFile ---

impl LogFile {
    pub(super) fn open(path: &Path, max_size: u64, max_files: u32) -> io::Result<Self> {
        let file = RotatingFile::open(path, max_size, NumberedBackups { max_files })?;
        Ok(LogFile {
            file: Mutex::new(file),
        })
    }
}

impl<'f> MakeWriter<'f> for LogFile {
    type Writer = LogLine<'f>;

    fn make_writer(&'f self) -> LogLine<'f> {
        LogLine(self.file.lock())
    }
}

impl Write for LogLine<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_line(line)?;
        // A line is in the file when it has been logged: the next instruction may end the process.
        self.0.flush()?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
