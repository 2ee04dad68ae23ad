//! Reads container logs from the engine, which stores and rotates them.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use http::Method;
use k8s_openapi::jiff::Timestamp;

use super::{
    DockerRuntime,
    client::{CALL_TIMEOUT, ResponseStream, query_string},
    container_config::EngineFlavor,
    frames::FrameDecoder,
};
use crate::runtime::{ContainerId, LogLine, LogOptions, LogStream, RuntimeError};

/// A log that is being read.
struct DockerLogReader {
    stream: ResponseStream,
    frames: FrameDecoder,
    is_at_end: bool,
    since: Option<Timestamp>,
    /// Parsed lines to return next.
    ready: VecDeque<LogLine>,
    runtime: String,
}

impl DockerRuntime {
    /// Reads the log of a container.
    pub(super) async fn read_logs(
        &self,
        id: &ContainerId,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, RuntimeError>>, RuntimeError> {
        let has_terminal = self.inspect_cached(&id.0).await?.config.tty;
        // Podman counts an unterminated last line as part of the line before it, so its lines are counted here.
        let tail = options
            .tail
            .filter(|_| self.config_generator.flavor == EngineFlavor::Podman && !options.follow);
        let engine_options = LogOptions {
            tail: options.tail.filter(|_| tail.is_none()),
            ..options.clone()
        };
        let path = format!(
            "/containers/{id}/logs{}",
            log_query(self.config_generator.flavor, &engine_options)
        );
        let stream = self
            .client
            .stream(Method::GET, &path, &[], CALL_TIMEOUT)
            .await
            .map_err(|error| self.failed(error, "read the log"))?;
        let reader = DockerLogReader {
            stream,
            frames: if has_terminal {
                FrameDecoder::raw()
            } else {
                FrameDecoder::multiplexed()
            },
            is_at_end: false,
            since: options.since,
            ready: VecDeque::new(),
            runtime: self.endpoint.clone(),
        };
        let lines = stream::unfold(reader, |mut reader| async move {
            let line = reader.next().await?;
            Some((line, reader))
        });
        match tail {
            Some(tail) => Ok(stream::iter(last_lines(lines.boxed(), tail).await).boxed()),
            None => Ok(lines.boxed()),
        }
    }
}

// --- DockerLogReader ---

impl DockerLogReader {
    /// Returns the next line that was received completely.
    fn next_line(&mut self) -> Option<(LogStream, Bytes)> {
        if self.is_at_end {
            self.frames.next_line_at_end()
        } else {
            self.frames.next_line()
        }
    }

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
            while let Some((stream, bytes)) = self.next_line() {
                let line = parse_line(stream, bytes);
                // The engine filters by whole seconds.
                if self.since.is_none_or(|since| line.time >= since) {
                    self.ready.push_back(line);
                }
            }
        }
    }
}

/// Collects the last lines of a finite log.
async fn last_lines<T>(mut lines: BoxStream<'_, T>, max: u64) -> VecDeque<T> {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let mut last = VecDeque::new();
    while let Some(line) = lines.next().await {
        last.push_back(line);
        if last.len() > max {
            last.pop_front();
        }
    }
    last
}

/// Parses a line: timestamp, space, content.
fn parse_line(stream: LogStream, bytes: Bytes) -> LogLine {
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

fn log_query(flavor: EngineFlavor, options: &LogOptions) -> String {
    let flag = |is_set: bool| if is_set { "1" } else { "0" };
    let includes = |stream| options.stream.is_none_or(|selected| selected == stream);
    let tail = options.tail.map(|lines| lines.to_string());
    let since = options.since.map(|since| match flavor {
        EngineFlavor::Docker => format!("{}.{:09}", since.as_second(), since.subsec_nanosecond()),
        EngineFlavor::Podman => since.to_string(),
    });
    let mut pairs = vec![
        ("timestamps", "1"),
        ("follow", flag(options.follow)),
        ("stdout", flag(includes(LogStream::Stdout))),
        ("stderr", flag(includes(LogStream::Stderr))),
    ];
    pairs.extend(tail.as_deref().map(|tail| ("tail", tail)));
    pairs.extend(since.as_deref().map(|since| ("since", since)));
    query_string(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_timestamps() {
        let line = parse_line(
            LogStream::Stderr,
            Bytes::from_static(b"2026-01-02T03:04:05.5Z hello world\n"),
        );
        assert_eq!(line.time, "2026-01-02T03:04:05.5Z".parse().unwrap());
        assert_eq!(line.bytes, "hello world\n");
        let local = parse_line(
            LogStream::Stdout,
            Bytes::from_static(b"2026-01-02T03:04:05+01:00 \n"),
        );
        assert_eq!(local.time, "2026-01-02T02:04:05Z".parse().unwrap());
        assert_eq!(local.bytes, "\n");
        let without = parse_line(LogStream::Stdout, Bytes::from_static(b"no time"));
        assert_eq!(without.bytes, "no time");
    }

    #[tokio::test]
    async fn keeps_last_lines() {
        let tail = async |max| last_lines(stream::iter(1..=5).boxed(), max).await;
        assert_eq!(tail(2).await, [4, 5]);
        assert_eq!(tail(9).await.len(), 5);
        assert!(tail(0).await.is_empty());
    }

    #[test]
    fn query_depends_on_engine() {
        let options = LogOptions {
            follow: true,
            tail: Some(10),
            since: Some("1970-01-01T00:01:00.5Z".parse().unwrap()),
            stream: Some(LogStream::Stdout),
        };
        assert_eq!(
            log_query(EngineFlavor::Docker, &options),
            "?timestamps=1&follow=1&stdout=1&stderr=0&tail=10&since=60.500000000"
        );
        assert!(log_query(EngineFlavor::Podman, &options).ends_with("&since=1970-01-01T00%3A01%3A00.5Z"));
    }
}
