//! What containers have written. The engine keeps it, and begins new files by itself.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use http::Method;
use k8s_openapi::jiff::Timestamp;

use super::{
    Engine,
    client::{QUICK, Streaming, query},
    frames::Frames,
    plan::Flavor,
};
use crate::runtime::{ContainerId, LogLine, LogOptions, LogStream, RuntimeError};

/// A log that is being read.
struct Reader {
    stream: Streaming,
    frames: Frames,
    is_at_end: bool,
    since: Option<Timestamp>,
    /// Lines that were understood and not handed out yet.
    ready: VecDeque<LogLine>,
    runtime: String,
}

impl Engine {
    /// The log of a container.
    pub(super) async fn read_logs(
        &self,
        id: &ContainerId,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, RuntimeError>>, RuntimeError> {
        let has_terminal = self.seen(&id.0).await?.config.tty;
        // Podman counts a last line without an end as part of the one before: what was written is counted here.
        let tail = options
            .tail
            .filter(|_| self.planner.flavor == Flavor::Podman && !options.follow);
        let asked = LogOptions {
            tail: options.tail.filter(|_| tail.is_none()),
            ..options.clone()
        };
        let path = format!("/containers/{id}/logs{}", log_query(self.planner.flavor, &asked));
        let stream = self
            .client
            .stream(Method::GET, &path, &[], QUICK)
            .await
            .map_err(|error| self.failed(error, "read the log"))?;
        let reader = Reader {
            stream,
            frames: Frames::new(has_terminal),
            is_at_end: false,
            since: options.since,
            ready: VecDeque::new(),
            runtime: self.place.clone(),
        };
        let lines = stream::unfold(reader, |mut reader| async move {
            let line = reader.next().await?;
            Some((line, reader))
        });
        match tail {
            Some(tail) => Ok(stream::iter(last(lines.boxed(), tail).await).boxed()),
            None => Ok(lines.boxed()),
        }
    }
}

// --- Reader ---

impl Reader {
    async fn next(&mut self) -> Option<Result<LogLine, RuntimeError>> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(Ok(line));
            }
            if self.is_at_end {
                return None;
            }
            match self.stream.next().await {
                Some(Ok(bytes)) => self.frames.push(&bytes),
                Some(Err(error)) => {
                    self.is_at_end = true;
                    return Some(Err(RuntimeError::Unreachable {
                        runtime: self.runtime.clone(),
                        reason: error.to_string(),
                    }));
                }
                None => self.is_at_end = true,
            }
            while let Some((stream, bytes)) = self.frames.next_line(self.is_at_end) {
                let line = read_line(stream, bytes);
                // The engine counts in seconds.
                if self.since.is_none_or(|since| line.time >= since) {
                    self.ready.push_back(line);
                }
            }
        }
    }
}

/// The last lines of a log that ends.
async fn last<T>(mut lines: BoxStream<'_, T>, most: u64) -> VecDeque<T> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut kept = VecDeque::new();
    while let Some(line) = lines.next().await {
        kept.push_back(line);
        if kept.len() > most {
            kept.pop_front();
        }
    }
    kept
}

/// A line begins with its time.
fn read_line(stream: LogStream, bytes: Bytes) -> LogLine {
    let end = bytes.iter().position(|byte| *byte == b' ').unwrap_or(0);
    let time = std::str::from_utf8(&bytes[..end])
        .ok()
        .and_then(|text| text.parse().ok());
    match time {
        Some(time) => LogLine {
            time,
            stream,
            bytes: bytes.slice(end + 1..),
        },
        None => LogLine {
            time: Timestamp::default(),
            stream,
            bytes,
        },
    }
}

fn log_query(flavor: Flavor, options: &LogOptions) -> String {
    let flag = |is_set: bool| if is_set { "1" } else { "0" };
    let wants = |stream| options.stream.is_none_or(|wanted| wanted == stream);
    let tail = options.tail.map(|lines| lines.to_string());
    let since = options.since.map(|since| match flavor {
        Flavor::Docker => format!("{}.{:09}", since.as_second(), since.subsec_nanosecond()),
        Flavor::Podman => since.to_string(),
    });
    let mut pairs = vec![
        ("timestamps", "1"),
        ("follow", flag(options.follow)),
        ("stdout", flag(wants(LogStream::Stdout))),
        ("stderr", flag(wants(LogStream::Stderr))),
    ];
    pairs.extend(tail.as_deref().map(|tail| ("tail", tail)));
    pairs.extend(since.as_deref().map(|since| ("since", since)));
    query(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_begins_with_its_time() {
        let line = read_line(
            LogStream::Stderr,
            Bytes::from_static(b"2026-01-02T03:04:05.5Z hello world\n"),
        );
        assert_eq!(line.time, "2026-01-02T03:04:05.5Z".parse().unwrap());
        assert_eq!(line.bytes, "hello world\n");
        let local = read_line(
            LogStream::Stdout,
            Bytes::from_static(b"2026-01-02T03:04:05+01:00 \n"),
        );
        assert_eq!(local.time, "2026-01-02T02:04:05Z".parse().unwrap());
        assert_eq!(local.bytes, "\n");
        let without = read_line(LogStream::Stdout, Bytes::from_static(b"no time"));
        assert_eq!(without.bytes, "no time");
    }

    #[tokio::test]
    async fn the_last_lines_are_kept() {
        let tail = async |most| last(stream::iter(1..=5).boxed(), most).await;
        assert_eq!(tail(2).await, [4, 5]);
        assert_eq!(tail(9).await.len(), 5);
        assert!(tail(0).await.is_empty());
    }

    #[test]
    fn each_engine_is_asked_in_its_own_way() {
        let options = LogOptions {
            follow: true,
            tail: Some(10),
            since: Some("1970-01-01T00:01:00.5Z".parse().unwrap()),
            stream: Some(LogStream::Stdout),
        };
        assert_eq!(
            log_query(Flavor::Docker, &options),
            "?timestamps=1&follow=1&stdout=1&stderr=0&tail=10&since=60.500000000"
        );
        assert!(log_query(Flavor::Podman, &options).ends_with("&since=1970-01-01T00%3A01%3A00.5Z"));
    }
}
