//! Options and output of container log requests.
// upstream: pkg/kubelet/server/server.go getContainerLogs

use bytes::{Bytes, BytesMut};
use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{container_lookup::LogInstance, handler::Query};
use crate::runtime::{LogLine, LogOptions, LogStream, RuntimeError};

/// Options of a log request (`PodLogOptions`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerLogOptions {
    /// Options that the runtime applies.
    pub runtime_options: LogOptions,
    pub instance: LogInstance,
    /// Prefix each line with its time.
    timestamps: bool,
    /// Maximum number of bytes to return.
    limit_bytes: Option<u64>,
}

/// Status code and message of an error response.
pub(super) type HttpError = (u16, String);

// --- ContainerLogOptions ---

impl ContainerLogOptions {
    /// Parses and validates the query. `tail` is an old name of `tailLines`.
    pub(super) fn parse(query: &Query, now: Timestamp) -> Result<Self, HttpError> {
        let undecodable = || (400, r#"{"message": "Unable to decode query."}"#.to_owned());
        let invalid = || (422, r#"{"message": "Invalid request."}"#.to_owned());
        let flag = |name| {
            query
                .get(name)
                .is_some_and(|value| !(value == "0" || value.eq_ignore_ascii_case("false")))
        };
        let number = |name| match query.get(name) {
            None => Ok(None),
            Some(value) => value.parse::<i64>().map(Some).map_err(|_| undecodable()),
        };
        let tail = match query.get("tail") {
            Some("all") => None,
            Some(tail) if !tail.is_empty() => Some(tail.parse::<i64>().map_err(|_| undecodable())?),
            _ => number("tailLines")?,
        };
        let limit_bytes = number("limitBytes")?;
        let seconds = number("sinceSeconds")?;
        let time = match query.get("sinceTime") {
            None | Some("") => None,
            Some(text) => Some(text.parse::<Timestamp>().map_err(|_| undecodable())?),
        };
        let stream = match query.get("stream").unwrap_or_default() {
            "" | "All" => None,
            "Stdout" => Some(LogStream::Stdout),
            "Stderr" => Some(LogStream::Stderr),
            _ => return Err(invalid()),
        };
        let is_invalid = tail.is_some_and(|tail| tail < 0)
            || limit_bytes.is_some_and(|limit_bytes| limit_bytes < 1)
            || seconds.is_some_and(|seconds| seconds < 1)
            || (seconds.is_some() && time.is_some())
            || (stream.is_some() && tail.is_some());
        if is_invalid {
            return Err(invalid());
        }
        let since = match seconds {
            // A time that cannot be represented means the whole log.
            Some(seconds) => now.checked_sub(SignedDuration::from_secs(seconds)).ok(),
            None => time,
        };
        Ok(ContainerLogOptions {
            runtime_options: LogOptions {
                follow: flag("follow"),
                tail: tail.and_then(|tail| u64::try_from(tail).ok()),
                since,
                stream,
            },
            instance: if flag("previous") {
                LogInstance::Previous
            } else {
                LogInstance::Latest
            },
            timestamps: flag("timestamps"),
            limit_bytes: limit_bytes.and_then(|limit_bytes| u64::try_from(limit_bytes).ok()),
        })
    }

    /// Formats log lines for the response.
    pub(super) fn format(
        &self,
        lines: BoxStream<'static, Result<LogLine, RuntimeError>>,
    ) -> impl Stream<Item = Result<Bytes, RuntimeError>> + Send + use<> {
        let formatter = LogFormatter {
            timestamps: self.timestamps,
            remaining: self.limit_bytes,
            at_line_start: [true; 2],
        };
        stream::unfold((lines, formatter), |(mut lines, mut formatter)| async move {
            // End at the byte limit; a followed log may have no further lines.
            if formatter.remaining == Some(0) {
                return None;
            }
            let chunk = lines.next().await?.map(|line| formatter.format(&line));
            Some((chunk, (lines, formatter)))
        })
    }
}

/// Formats log lines, and counts their bytes.
struct LogFormatter {
    timestamps: bool,
    /// Number of bytes that may still be returned.
    remaining: Option<u64>,
    /// Whether the next chunk of stdout, and of stderr, starts a line: the runtime splits long lines.
    at_line_start: [bool; 2],
}

impl LogFormatter {
    /// The bytes of a line, truncated at the byte limit.
    fn format(&mut self, line: &LogLine) -> Bytes {
        let at_line_start = &mut self.at_line_start[usize::from(line.stream == LogStream::Stderr)];
        let mut bytes = if self.timestamps && *at_line_start {
            let mut prefixed = BytesMut::from(format!("{:.9} ", line.time).as_bytes());
            prefixed.extend_from_slice(&line.bytes);
            prefixed.freeze()
        } else {
            line.bytes.clone()
        };
        *at_line_start = line.bytes.ends_with(b"\n");
        if let Some(remaining) = &mut self.remaining {
            bytes.truncate(usize::try_from(*remaining).unwrap_or(usize::MAX));
            *remaining -= bytes.len() as u64;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-16T12:00:00Z".parse().unwrap()
    }

    fn parse(query: &str) -> Result<ContainerLogOptions, HttpError> {
        ContainerLogOptions::parse(&Query::parse(Some(query)), now())
    }

    #[test]
    fn parses_options() {
        let options = parse(
            "follow=true&previous=1&sinceSeconds=60&tailLines=5&limitBytes=9&timestamps=true&stream=All",
        )
        .unwrap();
        assert_eq!(
            options,
            ContainerLogOptions {
                runtime_options: LogOptions {
                    follow: true,
                    tail: Some(5),
                    since: Some("2026-11-16T11:59:00Z".parse().unwrap()),
                    stream: None,
                },
                instance: LogInstance::Previous,
                timestamps: true,
                limit_bytes: Some(9),
            }
        );
        assert_eq!(
            parse("stream=Stderr").unwrap().runtime_options.stream,
            Some(LogStream::Stderr)
        );
        assert_eq!(parse("tail=all").unwrap().runtime_options.tail, None);
    }

    #[test]
    fn rejects_invalid_options() {
        for (query, code) in [
            ("tailLines=x", 400),
            ("sinceTime=yesterday", 400),
            ("tailLines=-1", 422),
            ("limitBytes=0", 422),
            ("sinceSeconds=0", 422),
            ("sinceSeconds=1&sinceTime=2026-11-16T12:00:00Z", 422),
            ("stream=Both", 422),
            ("stream=Stdout&tailLines=1", 422),
        ] {
            assert_eq!(parse(query).unwrap_err().0, code, "{query}");
        }
    }

    fn line(text: &'static str, stream: LogStream) -> Result<LogLine, RuntimeError> {
        Ok(LogLine {
            time: now(),
            stream,
            bytes: Bytes::from_static(text.as_bytes()),
        })
    }

    async fn formatted(query: &str) -> String {
        let lines = vec![
            line("one\n", LogStream::Stdout),
            line("tw", LogStream::Stdout),
            line("oh\n", LogStream::Stderr),
            line("o\n", LogStream::Stdout),
        ];
        let chunks = parse(query).unwrap().format(stream::iter(lines).boxed());
        let chunks: Vec<Bytes> = chunks.map(Result::unwrap).collect().await;
        String::from_utf8(chunks.concat()).unwrap()
    }

    #[tokio::test]
    async fn prefixes_lines_with_timestamps() {
        assert_eq!(formatted("").await, "one\ntwoh\no\n");
        let time = "2026-11-16T12:00:00.000000000Z ";
        assert_eq!(
            formatted("timestamps=true").await,
            format!("{time}one\n{time}tw{time}oh\no\n")
        );
    }

    #[tokio::test]
    async fn limit_bytes_truncates_within_a_line() {
        assert_eq!(formatted("limitBytes=5").await, "one\nt");
        assert_eq!(formatted("limitBytes=100").await, "one\ntwoh\no\n");
    }
}
