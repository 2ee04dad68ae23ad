//! What containers wrote.

use bytes::{Bytes, BytesMut};
use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::handler::Query;
use crate::runtime::{LogLine, LogOptions, LogStream, RuntimeError};

/// What a client wants of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// What the runtime is asked for.
    pub options: LogOptions,
    /// The container before the one that runs.
    pub previous: bool,
    /// Each line with its time.
    timestamps: bool,
    /// No more bytes than these.
    limit: Option<u64>,
}

/// Why a client does not get what it wants: a status code, and what is wrong.
pub(super) type Refused = (u16, String);

// --- Wanted ---

impl Wanted {
    /// Reads the query.
    pub(super) fn read(query: &Query, now: Timestamp) -> Result<Self, Refused> {
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
        let limit = number("limitBytes")?;
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
        let is_wrong = tail.is_some_and(|tail| tail < 0)
            || limit.is_some_and(|limit| limit < 1)
            || seconds.is_some_and(|seconds| seconds < 1)
            || (seconds.is_some() && time.is_some())
            || (stream.is_some() && tail.is_some());
        if is_wrong {
            return Err(invalid());
        }
        let since = match seconds {
            // Before time began is from the beginning.
            Some(seconds) => now.checked_sub(SignedDuration::from_secs(seconds)).ok(),
            None => time,
        };
        Ok(Wanted {
            options: LogOptions {
                follow: flag("follow"),
                tail: tail.and_then(|tail| u64::try_from(tail).ok()),
                since,
                stream,
            },
            previous: flag("previous"),
            timestamps: flag("timestamps"),
            limit: limit.and_then(|limit| u64::try_from(limit).ok()),
        })
    }

    /// The lines of a log as they are sent.
    pub(super) fn written(
        &self,
        lines: BoxStream<'static, Result<LogLine, RuntimeError>>,
    ) -> impl Stream<Item = Result<Bytes, RuntimeError>> + Send + use<> {
        let writer = LineWriter {
            timestamps: self.timestamps,
            left: self.limit,
            is_new: [true; 2],
        };
        stream::unfold((lines, writer), |(mut lines, mut writer)| async move {
            // Who has got all it may get does not wait for more.
            if writer.left == Some(0) {
                return None;
            }
            let piece = lines.next().await?.map(|line| writer.write(&line));
            Some((piece, (lines, writer)))
        })
    }
}

/// Writes line after line.
struct LineWriter {
    timestamps: bool,
    /// How many bytes may still be written.
    left: Option<u64>,
    /// Whether the next part of each stream begins a line.
    is_new: [bool; 2],
}

impl LineWriter {
    /// The bytes of a line, or as many of them as may be written.
    fn write(&mut self, line: &LogLine) -> Bytes {
        let is_new = &mut self.is_new[usize::from(line.stream == LogStream::Stderr)];
        let mut bytes = if self.timestamps && *is_new {
            let mut whole = BytesMut::from(format!("{:.9} ", line.time).as_bytes());
            whole.extend_from_slice(&line.bytes);
            whole.freeze()
        } else {
            line.bytes.clone()
        };
        *is_new = line.bytes.ends_with(b"\n");
        if let Some(left) = &mut self.left {
            bytes.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= bytes.len() as u64;
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

    fn read(query: &str) -> Result<Wanted, Refused> {
        Wanted::read(&Query::parse(Some(query)), now())
    }

    #[test]
    fn options_are_read() {
        let wanted = read(
            "follow=true&previous=1&sinceSeconds=60&tailLines=5&limitBytes=9&timestamps=true&stream=All",
        )
        .unwrap();
        assert_eq!(
            wanted,
            Wanted {
                options: LogOptions {
                    follow: true,
                    tail: Some(5),
                    since: Some("2026-11-16T11:59:00Z".parse().unwrap()),
                    stream: None,
                },
                previous: true,
                timestamps: true,
                limit: Some(9),
            }
        );
        assert_eq!(
            read("stream=Stderr").unwrap().options.stream,
            Some(LogStream::Stderr)
        );
        assert_eq!(read("tail=all").unwrap().options.tail, None);
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
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
            assert_eq!(read(query).unwrap_err().0, code, "{query}");
        }
    }

    fn line(text: &'static str, stream: LogStream) -> Result<LogLine, RuntimeError> {
        Ok(LogLine {
            time: now(),
            stream,
            bytes: Bytes::from_static(text.as_bytes()),
        })
    }

    async fn written(query: &str) -> String {
        let lines = vec![
            line("one\n", LogStream::Stdout),
            line("tw", LogStream::Stdout),
            line("oh\n", LogStream::Stderr),
            line("o\n", LogStream::Stdout),
        ];
        let pieces = read(query).unwrap().written(stream::iter(lines).boxed());
        let pieces: Vec<Bytes> = pieces.map(Result::unwrap).collect().await;
        String::from_utf8(pieces.concat()).unwrap()
    }

    #[tokio::test]
    async fn lines_have_their_times_once() {
        assert_eq!(written("").await, "one\ntwoh\no\n");
        let time = "2026-11-16T12:00:00.000000000Z ";
        assert_eq!(
            written("timestamps=true").await,
            format!("{time}one\n{time}tw{time}oh\no\n")
        );
    }

    #[tokio::test]
    async fn a_limit_cuts_within_a_line() {
        assert_eq!(written("limitBytes=5").await, "one\nt");
        assert_eq!(written("limitBytes=100").await, "one\ntwoh\no\n");
    }
}
