//! Finds where the last lines of a log begin, from its end.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::PathBuf,
};

use crate::runtime::LogStream;

use super::entry::LogEntry;

/// Read block size.
const BLOCK: u64 = 64 << 10;

/// Position in a log with several files.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogPosition {
    /// Index of the file.
    pub(super) file: usize,
    /// Offset in the file.
    pub(super) offset: u64,
}

/// Returns where the last `wanted` lines begin. A line of several partial entries counts once, as does an incomplete last line.
// upstream: staging/src/k8s.io/cri-client/pkg/logs/tail.go findTailLineStartIndex
pub(super) fn tail_position(
    files: &[PathBuf],
    wanted: u64,
    stream: Option<LogStream>,
) -> io::Result<LogPosition> {
    let mut count = LineCounter {
        remaining: wanted,
        seen_line_end: [false; 2],
        stream,
    };
    for (index, path) in files.iter().enumerate().rev() {
        let found = match File::open(path) {
            Ok(mut file) => in_file(&mut file, &mut count)?,
            // The file was pruned: only newer ones are left.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(offset) = found {
            return Ok(LogPosition { file: index, offset });
        }
    }
    Ok(LogPosition { file: 0, offset: 0 })
}

/// Counts lines from the end of the log.
struct LineCounter {
    remaining: u64,
    /// Whether an entry of each stream was seen: earlier partial entries belong to its line.
    seen_line_end: [bool; 2],
    stream: Option<LogStream>,
}

impl LineCounter {
    /// Returns whether this entry precedes the wanted lines.
    fn is_beyond(&mut self, line: &[u8]) -> bool {
        let Some(entry) = LogEntry::parse(line) else {
            return false;
        };
        if self.stream.is_some_and(|stream| stream != entry.stream) {
            return false;
        }
        // A full entry ends a line, as does the last partial entry of the log.
        let seen_line_end = &mut self.seen_line_end[usize::from(entry.stream == LogStream::Stderr)];
        let ends_line = !entry.partial || !*seen_line_end;
        *seen_line_end = true;
        if ends_line {
            if self.remaining == 0 {
                return true;
            }
            self.remaining -= 1;
        }
        false
    }
}

/// Returns the offset after the last entry that precedes the wanted lines.
fn in_file(file: &mut File, count: &mut LineCounter) -> io::Result<Option<u64>> {
    let mut begin = file.seek(SeekFrom::End(0))?;
    // The part of an entry that crosses the start of the previous block.
    let mut crossing = Vec::new();
    while begin > 0 {
        let length = BLOCK.min(begin);
        begin -= length;
        file.seek(SeekFrom::Start(begin))?;
        let mut block = Vec::with_capacity(usize::try_from(length).unwrap_or_default() + crossing.len());
        file.by_ref().take(length).read_to_end(&mut block)?;
        block.append(&mut crossing);
        let mut end = block.len();
        while let Some(start) = entry_start(&block[..end]) {
            if start == 0 && begin > 0 {
                break;
            }
            if count.is_beyond(&block[start..end]) {
                return Ok(Some(begin + u64::try_from(end).unwrap_or_default()));
            }
            end = start;
        }
        block.truncate(end);
        crossing = block;
    }
    Ok(None)
}

/// Returns where the last entry begins; `None` for no bytes.
fn entry_start(bytes: &[u8]) -> Option<usize> {
    let (_, before) = bytes.split_last()?;
    Some(
        before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn entry(rest: &str) -> String {
        format!("2026-11-16T19:00:00Z {rest}\n")
    }

    fn files(contents: &[String]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let directory = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (number, content) in contents.iter().enumerate() {
            let path = directory.path().join(number.to_string());
            fs::write(&path, content).unwrap();
            paths.push(path);
        }
        (directory, paths)
    }

    fn rest(contents: &[String], wanted: u64, stream: Option<LogStream>) -> String {
        let (_directory, paths) = files(contents);
        let position = tail_position(&paths, wanted, stream).unwrap();
        let text: String = contents[position.file..].concat();
        text[usize::try_from(position.offset).unwrap()..].to_owned()
    }

    #[test]
    fn finds_last_lines_across_files_and_blocks() {
        // Entries of 1 KiB cross block boundaries.
        let line = |number: usize| entry(&format!("stdout F {number} {}", "x".repeat(997)));
        let old: String = (0..300).map(line).collect();
        let new: String = (300..500).map(line).collect();
        let expected = |from: usize| -> String { (from..500).map(line).collect() };
        for wanted in [0, 1, 2, 63, 64, 65, 199, 200, 201, 450, 500, 501, 9_999] {
            let from = 500_usize.saturating_sub(wanted);
            let found = rest(&[old.clone(), new.clone()], wanted.try_into().unwrap(), None);
            assert!(found == expected(from), "{wanted}: {} bytes", found.len());
        }
    }

    #[test]
    fn partial_entries_are_one_line() {
        let text = entry("stdout F a") + &entry("stdout P b") + &entry("stdout P b") + &entry("stdout F b");
        let b = entry("stdout P b") + &entry("stdout P b") + &entry("stdout F b");
        assert_eq!(rest(std::slice::from_ref(&text), 1, None), b);
        let open = text.clone() + &entry("stdout P c");
        assert_eq!(rest(&[open], 1, None), entry("stdout P c"));
    }

    #[test]
    fn counts_only_selected_stream() {
        let text = entry("stdout F a") + &entry("stdout F b") + &entry("stderr F e") + &entry("stderr F f");
        let found = rest(&[text], 1, Some(LogStream::Stdout));
        assert!(found.starts_with(&entry("stdout F b")));
    }

    #[test]
    fn handles_empty_and_pruned_logs() {
        assert_eq!(rest(&[String::new()], 3, None), "");
        assert_eq!(
            tail_position(&[], 3, None).unwrap(),
            LogPosition { file: 0, offset: 0 }
        );
        let (_directory, mut paths) = files(&[entry("stdout F a")]);
        paths.insert(0, PathBuf::from("/nonexistent/pruned"));
        assert_eq!(
            tail_position(&paths, 5, None).unwrap(),
            LogPosition { file: 0, offset: 0 }
        );
    }
}
