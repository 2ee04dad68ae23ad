//! Reads and follows a log.
// upstream: staging/src/k8s.io/cri-client/pkg/logs/logs.go ReadLogs

use std::{
    collections::VecDeque,
    io::{self, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::{
    future::BoxFuture,
    stream::{self, BoxStream, StreamExt},
};
use tokio::{
    fs::File,
    io::{AsyncBufReadExt, AsyncSeekExt, BufReader},
    time::sleep,
};

use crate::{
    blocking::run_blocking,
    runtime::{LogLine, LogOptions, RuntimeError},
};

use super::{entry::LogEntry, files, tail};

/// Polling interval of a followed log.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Number of polls without new data between checks that the container is alive.
const ALIVE_CHECK_EVERY: u32 = 5;

/// Read buffer size.
const BLOCK: usize = 64 << 10;

/// Returns whether the container may still write.
pub(in super::super) type ContainerAliveCheck = Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// Returns the lines of a log; with [`LogOptions::follow`] until `alive` returns false and everything was read.
pub(in super::super) async fn read(
    log: PathBuf,
    options: LogOptions,
    alive: ContainerAliveCheck,
) -> Result<BoxStream<'static, Result<LogLine, RuntimeError>>, RuntimeError> {
    let path = log.clone();
    let tail = options.tail;
    let stream_filter = options.stream;
    let (files, offset) = run_blocking(move || begin(&path, tail, stream_filter))
        .await
        .map_err(|error| failed(&log, &error))?;
    let reader = LogReader {
        log,
        options,
        alive,
        waiting: files,
        offset,
        open: None,
        line: Vec::new(),
        idle: 0,
        last_look: false,
    };
    let lines = stream::try_unfold(reader, |mut reader| async move {
        let next = reader.next().await;
        let next = next.map_err(|error| failed(&reader.log, &error))?;
        Ok(next.map(|line| (line, reader)))
    });
    Ok(lines.boxed())
}

/// Returns the files to read, and the offset in the first one.
fn begin(
    log: &Path,
    tail: Option<u64>,
    stream: Option<crate::runtime::LogStream>,
) -> io::Result<(VecDeque<PathBuf>, u64)> {
    let mut files = files::all(log)?;
    let Some(stream_filter) = tail else {
        return Ok((files.into(), 0));
    };
    let position = tail::tail_position(&files, stream_filter, stream)?;
    files.drain(..position.file);
    Ok((files.into(), position.offset))
}

fn failed(log: &Path, error: &io::Error) -> RuntimeError {
    RuntimeError::OperationFailed(format!("cannot read the log {}: {error}", log.display()))
}

struct LogReader {
    log: PathBuf,
    options: LogOptions,
    alive: ContainerAliveCheck,
    /// Files after the open one.
    waiting: VecDeque<PathBuf>,
    /// Offset at which the next opened file is read.
    offset: u64,
    open: Option<OpenFile>,
    /// Incomplete entry that was read so far.
    line: Vec<u8>,
    /// Polls without new data since the last check of the container.
    idle: u32,
    /// Whether the container has exited: the next end of file is final.
    last_look: bool,
}

struct OpenFile {
    file: BufReader<File>,
    inode: u64,
    /// Whether the runtime writes to a newer file: the next end of this file is final.
    left: bool,
}

// --- LogReader ---

impl LogReader {
    async fn next(&mut self) -> io::Result<Option<LogLine>> {
        loop {
            if self.open.is_none() && !self.open_next().await? && !self.wait().await? {
                return Ok(None);
            }
            let Some(open) = &mut self.open else {
                continue;
            };
            open.file.read_until(b'\n', &mut self.line).await?;
            if self.line.ends_with(b"\n") {
                self.idle = 0;
                if let Some(line) = self.take() {
                    return Ok(Some(line));
                }
                continue;
            }
            if !self.at_end().await? {
                return Ok(None);
            }
        }
    }

    /// Takes the complete entry, if the options select it.
    fn take(&mut self) -> Option<LogLine> {
        let entry = std::mem::take(&mut self.line);
        let line = LogEntry::parse(&entry)?.line()?;
        let is_selected = self.options.stream.is_none_or(|stream| stream == line.stream)
            && self.options.since.is_none_or(|since| line.time >= since);
        is_selected.then_some(line)
    }

    async fn open_next(&mut self) -> io::Result<bool> {
        while let Some(path) = self.waiting.pop_front() {
            let offset = std::mem::take(&mut self.offset);
            let mut file = match File::open(&path).await {
                Ok(file) => file,
                // The file was pruned, or not created yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let inode = file.metadata().await?.ino();
            if offset > 0 {
                file.seek(SeekFrom::Start(offset)).await?;
            }
            self.open = Some(OpenFile {
                file: BufReader::with_capacity(BLOCK, file),
                inode,
                left: !self.waiting.is_empty(),
            });
            return Ok(true);
        }
        Ok(false)
    }

    /// Handles an end of file. Returns whether to continue.
    async fn at_end(&mut self) -> io::Result<bool> {
        let Some(open) = &mut self.open else {
            return Ok(true);
        };
        if open.left {
            // An incomplete entry at the end of a rotated file is never completed.
            self.line.clear();
            let inode = open.inode;
            self.open = None;
            if self.waiting.is_empty() {
                let log = self.log.clone();
                self.waiting = run_blocking(move || files::newer(&log, inode)).await?;
            }
            return Ok(true);
        }
        if !self.options.follow {
            return Ok(false);
        }
        match tokio::fs::metadata(&self.log).await {
            Ok(file) if file.ino() != open.inode => {
                // The runtime has reopened its log. Read the old file once more: it may have grown since the last read.
                open.left = true;
                return Ok(true);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.wait().await
    }

    /// Waits for new data; returns false if there will be none.
    async fn wait(&mut self) -> io::Result<bool> {
        if !self.options.follow || self.last_look {
            return Ok(false);
        }
        if self.open.is_none() {
            self.waiting.push_back(self.log.clone());
        }
        self.idle += 1;
        if self.idle % ALIVE_CHECK_EVERY == 1 {
            self.last_look = !(self.alive)().await;
            if self.last_look {
                // The container may have written since the last read.
                return Ok(true);
            }
        }
        sleep(POLL_INTERVAL).await;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::Write,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
    };

    use futures_util::{FutureExt, TryStreamExt};

    use super::*;
    use crate::runtime::LogStream;

    struct TestLog {
        directory: tempfile::TempDir,
        alive: Arc<AtomicBool>,
    }

    impl TestLog {
        fn new() -> Self {
            TestLog {
                directory: tempfile::tempdir().unwrap(),
                alive: Arc::new(AtomicBool::new(true)),
            }
        }

        fn path(&self) -> PathBuf {
            self.directory.path().join("0.log")
        }

        fn write(&self, second: u32, rest: &str) {
            let mut file = fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(self.path())
                .unwrap();
            writeln!(file, "2026-11-16T19:00:{second:02}Z {rest}").unwrap();
        }

        async fn read(&self, options: LogOptions) -> BoxStream<'static, Result<LogLine, RuntimeError>> {
            let alive = Arc::clone(&self.alive);
            let alive: ContainerAliveCheck = Box::new(move || {
                let alive = alive.load(Ordering::SeqCst);
                async move { alive }.boxed()
            });
            super::read(self.path(), options, alive).await.unwrap()
        }

        async fn texts(&self, options: LogOptions) -> Vec<String> {
            self.read(options).await.map_ok(text).try_collect().await.unwrap()
        }
    }

    fn text(line: LogLine) -> String {
        String::from_utf8(line.bytes.into()).unwrap()
    }

    fn followed() -> LogOptions {
        LogOptions {
            follow: true,
            ..LogOptions::default()
        }
    }

    #[tokio::test]
    async fn reads_across_files() {
        let log = TestLog::new();
        log.write(1, "stdout F a");
        files::rotate_file(&log.path()).unwrap();
        log.write(2, "stderr P b");
        log.write(3, "stdout F c");
        assert_eq!(log.texts(LogOptions::default()).await, ["a\n", "b", "c\n"]);
        let tail = LogOptions {
            tail: Some(1),
            ..LogOptions::default()
        };
        assert_eq!(log.texts(tail).await, ["c\n"]);
        let since = LogOptions {
            since: Some("2026-11-16T19:00:02Z".parse().unwrap()),
            ..LogOptions::default()
        };
        assert_eq!(log.texts(since).await, ["b", "c\n"]);
        let one = LogOptions {
            stream: Some(LogStream::Stdout),
            ..LogOptions::default()
        };
        assert_eq!(log.texts(one).await, ["a\n", "c\n"]);
    }

    #[tokio::test]
    async fn missing_log_is_empty() {
        assert!(TestLog::new().texts(LogOptions::default()).await.is_empty());
    }

    #[tokio::test]
    async fn follower_gets_each_line_once_across_rotations() {
        let log = TestLog::new();
        log.write(1, "stdout F a");
        let mut lines = log.read(followed()).await.map_ok(text);
        assert_eq!(lines.try_next().await.unwrap().unwrap(), "a\n");
        log.write(2, "stdout F b");
        assert_eq!(lines.try_next().await.unwrap().unwrap(), "b\n");
        let aside = files::rotate_file(&log.path()).unwrap();
        // The runtime writes to the old file until it reopens the log.
        let mut old = fs::OpenOptions::new().append(true).open(aside).unwrap();
        writeln!(old, "2026-11-16T19:00:03Z stdout F c").unwrap();
        assert_eq!(lines.try_next().await.unwrap().unwrap(), "c\n");
        log.write(4, "stdout F d");
        assert_eq!(lines.try_next().await.unwrap().unwrap(), "d\n");
        log.write(5, "stdout F last");
        log.alive.store(false, Ordering::SeqCst);
        assert_eq!(lines.try_next().await.unwrap().unwrap(), "last\n");
        assert_eq!(lines.try_next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn follower_waits_for_first_line() {
        let log = TestLog::new();
        let mut lines = log.read(followed()).await.map_ok(text);
        let writer = async {
            sleep(POLL_INTERVAL * 2).await;
            log.write(1, "stdout F a");
        };
        let (line, ()) = tokio::join!(lines.try_next(), writer);
        assert_eq!(line.unwrap().unwrap(), "a\n");
        log.alive.store(false, Ordering::SeqCst);
        assert_eq!(lines.try_next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn follower_waits_for_incomplete_entry() {
        let log = TestLog::new();
        fs::write(log.path(), "2026-11-16T19:00:01Z stdout F ha").unwrap();
        let mut lines = log.read(followed()).await.map_ok(text);
        let writer = async {
            sleep(POLL_INTERVAL * 2).await;
            let mut file = fs::OpenOptions::new().append(true).open(log.path()).unwrap();
            writeln!(file, "lf").unwrap();
        };
        let (line, ()) = tokio::join!(lines.try_next(), writer);
        assert_eq!(line.unwrap().unwrap(), "half\n");
    }
}
