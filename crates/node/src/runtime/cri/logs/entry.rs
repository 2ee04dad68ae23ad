//! One entry of a log: `<time> <stream> <tags> <text>`.

use bytes::Bytes;
use k8s_openapi::jiff::Timestamp;

use crate::runtime::{LogLine, LogStream};

/// An entry. A long line of the container is several, all but the last of them partial.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) time: &'a str,
    pub(super) stream: LogStream,
    pub(super) partial: bool,
    /// Without the end of the line.
    pub(super) text: &'a [u8],
}

// --- Entry ---

impl<'a> Entry<'a> {
    /// Reads an entry; `None` if it is none, such as one that was cut off when the machine crashed.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let time = std::str::from_utf8(parts.next()?).ok()?;
        let stream = match parts.next()? {
            b"stdout" => LogStream::Stdout,
            b"stderr" => LogStream::Stderr,
            _ => return None,
        };
        // More tags may follow the first, after colons.
        let partial = match parts.next()?.split(|byte| *byte == b':').next()? {
            b"P" => true,
            b"F" => false,
            _ => return None,
        };
        Some(Entry {
            time,
            stream,
            partial,
            // The runtime may leave out the space before an empty text.
            text: parts.next().unwrap_or_default(),
        })
    }

    /// The line as it is handed on; `None` if its time cannot be read.
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
        Entry::parse(line.as_bytes())?.line()
    }

    #[test]
    fn lines_and_parts_are_told_apart() {
        assert_eq!(parsed("stdout F a b  c").unwrap().bytes, "a b  c\n");
        assert_eq!(parsed("stdout P a ").unwrap().bytes, "a ");
        assert_eq!(parsed("stderr F:x:y e").unwrap().stream, LogStream::Stderr);
        assert_eq!(parsed("stdout F ").unwrap().bytes, "\n");
        assert_eq!(parsed("stdout F").unwrap().bytes, "\n");
    }

    #[test]
    fn times_of_other_zones_are_read() {
        let line = b"2026-11-16T21:00:00.5+02:00 stdout F x";
        let expected: Timestamp = "2026-11-16T19:00:00.5Z".parse().unwrap();
        assert_eq!(Entry::parse(line).unwrap().line().unwrap().time, expected);
    }

    #[test]
    fn what_is_no_entry_is_none() {
        for line in ["", "x", "stdin F a", "stdout Q a", "F"] {
            assert_eq!(parsed(line), None, "{line}");
        }
        assert!(Entry::parse(b"\xff\xfe stdout F a").is_none());
        assert!(Entry::parse(b"noon stdout F a").unwrap().line().is_none());
    }
}
