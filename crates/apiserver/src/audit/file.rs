//! The audit log file: rotation and retention.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use flate2::{Compression, write::GzEncoder};
use k3_api::time::Time;
use k3_files::{LogBackups, RotatingFile};
use k3_task::Clock;

/// Where the log is written, and how much of it is kept.
#[derive(Clone, Debug)]
pub struct AuditLogFile {
    /// The file; `-` is standard output.
    pub path: PathBuf,
    /// How long the file may become, in bytes, before it is put aside and a new one is begun.
    pub longest: u64,
    /// How many files that were put aside are kept; 0 for all.
    pub most_backups: usize,
    /// For how many days they are kept; 0 for ever.
    pub most_days: u64,
    /// Whether they are compressed.
    pub compress: bool,
}

/// Where lines go.
pub(super) enum AuditSink {
    Output(io::Stdout),
    File(RotatingFile<DatedBackups>),
}

/// Rotated files with the time of rotation in their names.
pub(super) struct DatedBackups {
    settings: AuditLogFile,
    clock: Clock,
    /// The timestamp of the last backup name. Names must increase: reusing the name of a deleted oldest backup would make the
    /// newest file the oldest.
    named: Option<Time>,
    /// The last rotated file.
    newest: Option<PathBuf>,
}

// --- AuditSink ---

impl AuditSink {
    pub(super) fn open(settings: AuditLogFile, clock: Clock) -> io::Result<Self> {
        if settings.path.as_os_str() == "-" {
            return Ok(AuditSink::Output(io::stdout()));
        }
        let path = settings.path.clone();
        let longest = settings.longest;
        let backups = DatedBackups {
            settings,
            clock,
            named: None,
            newest: None,
        };
        RotatingFile::open(&path, longest, backups).map(AuditSink::File)
    }

    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            AuditSink::Output(output) => output.write_all(line),
            AuditSink::File(file) => file.write_line(line),
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            AuditSink::Output(output) => output.flush(),
            AuditSink::File(file) => file.flush(),
        }
    }
}

// --- DatedBackups ---

impl LogBackups for DatedBackups {
    fn set_aside(&mut self, path: &Path) -> io::Result<()> {
        let aside = self.free_name();
        fs::rename(path, &aside)?;
        self.newest = Some(aside);
        Ok(())
    }

    fn after_rotation(&mut self, _path: &Path, rotated: io::Result<()>) {
        if let Err(error) = rotated {
            tracing::warn!(%error, "failed to rotate the audit log");
        }
        // Housekeeping: a failure must not keep the log from being written.
        if let Some(newest) = self.newest.take()
            && let Err(error) = self.tidy(&newest)
        {
            tracing::warn!(%error, "failed to clean up rotated audit logs");
        }
    }
}

impl DatedBackups {
    /// A name with the time in it, as upstream has it: `audit-2026-11-16T05-31-25.123.log`.
    fn free_name(&mut self) -> PathBuf {
        let milli = k3_duration::Duration::from_nanos(1_000_000);
        let mut time = Time::from(self.clock.system_time());
        if let Some(last) = self.named {
            time = time.max(last.plus(milli));
        }
        let (beginning, ending) = self.parts();
        loop {
            let mut date = time.micro().replace(':', "-");
            date.truncate("0000-00-00T00-00-00.000".len());
            let name = self
                .settings
                .path
                .with_file_name(format!("{beginning}{date}{ending}"));
            if !name.exists() && !compressed(&name).exists() {
                self.named = Some(time);
                return name;
            }
            time = time.plus(milli);
        }
    }

    /// What names of files that were put aside begin and end with.
    fn parts(&self) -> (String, String) {
        let path = &self.settings.path;
        let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let ending = text(path.extension())
            .map(|extension| format!(".{extension}"))
            .unwrap_or_default();
        (format!("{}-", text(path.file_stem()).unwrap_or_default()), ending)
    }

    fn tidy(&self, newest: &Path) -> io::Result<()> {
        if self.settings.compress {
            compress(newest)?;
        }
        let (beginning, ending) = self.parts();
        let directory = match self.settings.path.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            _ => Path::new("."),
        };
        let mut aside = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let plain = name.strip_suffix(".gz").unwrap_or(&name);
            let date = plain
                .strip_prefix(&beginning)
                .and_then(|rest| rest.strip_suffix(&ending));
            if let Some(date) = date.filter(|date| is_date(date)) {
                aside.push((date.to_owned(), entry.path()));
            }
        }
        aside.sort();
        aside.reverse();
        let kept = match self.settings.most_backups {
            0 => aside.len(),
            max => max.min(aside.len()),
        };
        for (_, path) in aside.drain(kept..) {
            fs::remove_file(path)?;
        }
        let oldest = Duration::from_hours(self.settings.most_days.saturating_mul(24));
        for (_, path) in aside.iter().filter(|_| !oldest.is_zero()) {
            let age = self
                .clock
                .system_time()
                .duration_since(fs::metadata(path)?.modified().unwrap_or(UNIX_EPOCH));
            if age.is_ok_and(|age| age > oldest) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Whether a text is a date as names have it.
fn is_date(text: &str) -> bool {
    let pattern = "0000-00-00T00-00-00.000";
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, wanted)| {
            if wanted == b'0' {
                byte.is_ascii_digit()
            } else {
                byte == wanted
            }
        })
}

fn compressed(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    name.into()
}

fn compress(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let out = k3_files::open(&compressed(path), &mut options)?;
    let mut encoder = GzEncoder::new(out, Compression::default());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    fs::remove_file(path)
}

impl fmt::Debug for AuditSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}

#[cfg(test)]
mod tests {
    use k3_task::Clock;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn sink(directory: &Path, most_backups: usize, compress: bool) -> AuditSink {
        let settings = AuditLogFile {
            path: directory.join("audit.log"),
            longest: 10,
            most_backups,
            most_days: 1,
            compress,
        };
        AuditSink::open(settings, Clock::system()).unwrap()
    }

    #[test]
    fn rotates_file_and_removes_oldest_backups() {
        let directory = tempfile::tempdir().unwrap();
        let mut sink = sink(directory.path(), 2, false);
        for line in 0..5 {
            sink.write(format!("line {line}\n").as_bytes()).unwrap();
        }
        sink.flush().unwrap();
        let names = names(directory.path());
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(
            fs::read_to_string(directory.path().join("audit.log")).unwrap(),
            "line 4\n"
        );
        assert_eq!(
            fs::read_to_string(directory.path().join(&names[0])).unwrap(),
            "line 2\n"
        );
        assert!(
            names[0].starts_with("audit-20") && names[0].strip_suffix(".log").is_some(),
            "{names:?}"
        );
    }

    #[test]
    fn compresses_backups_and_appends_to_existing_file() {
        let directory = tempfile::tempdir().unwrap();
        sink(directory.path(), 0, true).write(b"before\n").unwrap();
        sink(directory.path(), 0, true).write(b"after\n").unwrap();
        let names = names(directory.path());
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names[0].ends_with(".log.gz"), "{names:?}");
        let mut text = String::new();
        let file = File::open(directory.path().join(&names[0])).unwrap();
        io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
        assert_eq!(text, "before\n");
    }
}
