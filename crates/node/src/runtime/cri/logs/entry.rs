//! An entry of a log file: `<time> <stream> <tags> <text>`.
// upstream: staging/src/k8s.io/cri-client/pkg/logs/logs.go parseCRILog

use bytes::Bytes;
use k8s_openapi::jiff::Timestamp;

use crate::runtime::{LogLine, LogStream};

/// A log entry. A long line is split into entries, all but the last of them partial.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogEntry<'a> {
    pub(super) time: &'a str,
    pub(super) stream: LogStream,
    pub(super) partial: bool,
    /// Without the newline.
    pub(super) text: &'a [u8],
}

// --- LogEntry ---

impl<'a> LogEntry<'a> {
    /// Parses an entry; `None` if invalid, such as an entry that a crash truncated.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let time = std::str::from_utf8(parts.next()?).ok()?;
        let stream = match parts.next()? {
            b"stdout" => LogStream::Stdout,
            b"stderr" => LogStream::Stderr,
            _ => return None,
        };
        // Further tags may follow after colons.
        let partial = match parts.next()?.split(|byte| *byte == b':').next()? {
            b"P" => true,
            b"F" => false,
            _ => return None,
        };
        Some(LogEntry {
            time,
            stream,
            partial,
            // Runtimes may omit the space before an empty text.
            text: parts.next().unwrap_or_default(),
        })
    }

    /// Converts to a log line; `None` if the time is invalid.
    pub(super) fn line(&self) -> Option<LogLine> {
        let mut bytes = Vec::with_capacity(self.text.len() + 1);
        bytes.extend_from_slice(self.text);
        if !self.partial {
            bytes.push(b'\n');
        }
        Some(LogLine {
            time: self.time.parse::<Timestamp>().ok()?,
            stream: self.stream,
            bytes: Bytes::from(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "2026-11-16T19:00:00.123456789Z";

    fn parsed(rest: &str) -> Option<LogLine> {
        let line = format!("{TIME} {rest}\n");
        LogEntry::parse(line.as_bytes())?.line()
    }

    #[test]
    fn parses_full_and_partial_entries() {
        assert_eq!(parsed("stdout F a b  c").unwrap().bytes, "a b  c\n");
        assert_eq!(parsed("stdout P a ").unwrap().bytes, "a ");
        assert_eq!(parsed("stderr F:x:y e").unwrap().stream, LogStream::Stderr);
        assert_eq!(parsed("stdout F ").unwrap().bytes, "\n");
        assert_eq!(parsed("stdout F").unwrap().bytes, "\n");
    }

    #[test]
    fn parses_time_zones() {
        let line = b"2026-11-16T21:00:00.5+02:00 stdout F x";
        let expected: Timestamp = "2026-11-16T19:00:00.5Z".parse().unwrap();
        assert_eq!(LogEntry::parse(line).unwrap().line().unwrap().time, expected);
    }

    #[test]
    fn rejects_invalid_entries() {
        for line in ["", "x", "stdin F a", "stdout Q a", "F"] {
            assert_eq!(parsed(line), None, "{line}");
        }
        assert!(LogEntry::parse(b"\xff\xfe stdout F a").is_none());
        assert!(LogEntry::parse(b"noon stdout F a").unwrap().line().is_none());
    }
}
