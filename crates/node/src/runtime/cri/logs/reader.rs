//! Reads a log, and follows it.

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
    task::spawn_blocking,
    time::sleep,
};

use crate::runtime::{LogLine, LogOptions, RuntimeError};

use super::{entry::Entry, files, tail};

/// How often a log that is followed is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// After how many looks without news the runtime is asked whether the container lives.
const ASK_EVERY: u32 = 5;

/// How much is read at once.
const BLOCK: usize = 64 << 10;

/// Tells whether the container may still write.
pub(in super::super) type Alive = Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// The lines of a log. With [`LogOptions::follow`] until `alive` says no and everything was read.
pub(in super::super) async fn read(
    log: PathBuf,
    options: LogOptions,
    alive: Alive,
) -> Result<BoxStream<'static, Result<LogLine, RuntimeError>>, RuntimeError> {
    let path = log.clone();
    let tail = options.tail;
    let wanted = options.stream;
    let (files, offset) = spawn_blocking(move || begin(&path, tail, wanted))
        .await
        .map_err(io::Error::other)
        .and_then(|begun| begun)
        .map_err(|error| failed(&log, &error))?;
    let reader = Reader {
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

/// Which files are to be read, and where in the first of them.
fn begin(
    log: &Path,
    tail: Option<u64>,
    stream: Option<crate::runtime::LogStream>,
) -> io::Result<(VecDeque<PathBuf>, u64)> {
    let mut files = files::all(log)?;
    let Some(wanted) = tail else {
        return Ok((files.into(), 0));
    };
    let place = tail::place(&files, wanted, stream)?;
    files.drain(..place.file);
    Ok((files.into(), place.offset))
}

/// The files that come after one that was read. If that is not there any more, all that are left came after it.
fn newer(log: &Path, inode: u64) -> io::Result<VecDeque<PathBuf>> {
    let mut files: VecDeque<_> = files::all(log)?.into();
    let is_read = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|file| file.ino() == inode);
    if let Some(index) = files.iter().position(is_read) {
        files.drain(..=index);
    }
    Ok(files)
}

fn failed(log: &Path, error: &io::Error) -> RuntimeError {
    RuntimeError::Refused(format!("cannot read the log {}: {error}", log.display()))
}

struct Reader {
    log: PathBuf,
    options: LogOptions,
    alive: Alive,
    /// Files that come after the one that is open.
    waiting: VecDeque<PathBuf>,
    /// Where the next file that is opened begins to be read.
    offset: u64,
    open: Option<Open>,
    /// What was read of an entry that has no end yet.
    line: Vec<u8>,
    /// Looks without news since the container was last asked about.
    idle: u32,
    /// The container has ended: the next end of the file is the last.
    last_look: bool,
}

struct Open {
    file: BufReader<File>,
    inode: u64,
    /// The runtime writes to a newer file: the next end of this one is its last.
    left: bool,
}

// --- Reader ---

impl Reader {
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

    /// The entry that was read, if it is wanted.
    fn take(&mut self) -> Option<LogLine> {
        let entry = std::mem::take(&mut self.line);
        let line = Entry::parse(&entry)?.line()?;
        let wanted = self.options.stream.is_none_or(|stream| stream == line.stream)
            && self.options.since.is_none_or(|since| line.time >= since);
        wanted.then_some(line)
    }

    async fn open_next(&mut self) -> io::Result<bool> {
        while let Some(path) = self.waiting.pop_front() {
            let offset = std::mem::take(&mut self.offset);
            let mut file = match File::open(&path).await {
                Ok(file) => file,
                // Pruned, or not begun yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let inode = file.metadata().await?.ino();
            if offset > 0 {
                file.seek(SeekFrom::Start(offset)).await?;
            }
            self.open = Some(Open {
                file: BufReader::with_capacity(BLOCK, file),
                inode,
                left: !self.waiting.is_empty(),
            });
            return Ok(true);
        }
        Ok(false)
    }

    /// What is to be done where a file ends: whether to go on at all.
    async fn at_end(&mut self) -> io::Result<bool> {
        let Some(open) = &mut self.open else {
            return Ok(true);
        };
        if open.left {
            // What an old file ends with is all there will ever be of it.
            self.line.clear();
            let inode = open.inode;
            self.open = None;
            if self.waiting.is_empty() {
                let log = self.log.clone();
                self.waiting = spawn_blocking(move || newer(&log, inode))
                    .await
                    .map_err(io::Error::other)??;
            }
            return Ok(true);
        }
        if !self.options.follow {
            return Ok(false);
        }
        match tokio::fs::metadata(&self.log).await {
            Ok(file) if file.ino() != open.inode => {
                // The runtime writes to the new one only; the old one may have got more until a moment ago.
                open.left = true;
                return Ok(true);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.wait().await
    }

    /// Waits for something to be written; `false` if nothing will be.
    async fn wait(&mut self) -> io::Result<bool> {
        if !self.options.follow || self.last_look {
            return Ok(false);
        }
        if self.open.is_none() {
            self.waiting.push_back(self.log.clone());
        }
        self.idle += 1;
        if self.idle % ASK_EVERY == 1 {
            self.last_look = !(self.alive)().await;
            if self.last_look {
                // It may have written something before it ended.
                return Ok(true);
            }
        }
        sleep(LOOK).await;
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

    struct Log {
        folder: tempfile::TempDir,
        alive: Arc<AtomicBool>,
    }

    impl Log {
        fn new() -> Self {
            Log {
                folder: tempfile::tempdir().unwrap(),
                alive: Arc::new(AtomicBool::new(true)),
            }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("0.log")
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
            let alive: Alive = Box::new(move || {
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
    async fn a_log_is_read_across_its_files() {
        let log = Log::new();
        log.write(1, "stdout F a");
        files::set_aside(&log.path()).unwrap();
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
    async fn a_log_that_was_never_written_is_empty() {
        assert!(Log::new().texts(LogOptions::default()).await.is_empty());
    }

    #[tokio::test]
    async fn a_follower_sees_each_line_once_across_rotations_and_then_ends() {
        let log = Log::new();
        log.write(1, "stdout F a");
        let mut lines = log.read(followed()).await.map_ok(text);
        assert_eq!(lines.try_next().await.unwrap().unwrap(), "a\n");
        log.write(2, "stdout F b");
        assert_eq!(lines.try_next().await.unwrap().unwrap(), "b\n");
        let aside = files::set_aside(&log.path()).unwrap();
        // Until it is told to begin a new file, the runtime writes to the old one.
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
    async fn a_follower_waits_for_the_first_line() {
        let log = Log::new();
        let mut lines = log.read(followed()).await.map_ok(text);
        let writer = async {
            sleep(LOOK * 2).await;
            log.write(1, "stdout F a");
        };
        let (line, ()) = tokio::join!(lines.try_next(), writer);
        assert_eq!(line.unwrap().unwrap(), "a\n");
        log.alive.store(false, Ordering::SeqCst);
        assert_eq!(lines.try_next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_follower_of_half_an_entry_waits_for_the_rest() {
        let log = Log::new();
        fs::write(log.path(), "2026-11-16T19:00:01Z stdout F ha").unwrap();
        let mut lines = log.read(followed()).await.map_ok(text);
        let writer = async {
            sleep(LOOK * 2).await;
            let mut file = fs::OpenOptions::new().append(true).open(log.path()).unwrap();
            writeln!(file, "lf").unwrap();
        };
        let (line, ()) = tokio::join!(lines.try_next(), writer);
        assert_eq!(line.unwrap().unwrap(), "half\n");
    }
}
