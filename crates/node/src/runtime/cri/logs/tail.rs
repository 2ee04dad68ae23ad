//! Where the last lines of a log begin, found from its end.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::PathBuf,
};

use crate::runtime::LogStream;

use super::entry::Entry;

/// How much is read at once.
const BLOCK: u64 = 64 << 10;

/// A place in a log that has several files.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The index of the file.
    pub(super) file: usize,
    /// The offset in it.
    pub(super) offset: u64,
}

/// The place where the last `wanted` lines begin. A line in several parts is one; a line that is not complete yet is one, too.
pub(super) fn place(files: &[PathBuf], wanted: u64, stream: Option<LogStream>) -> io::Result<Place> {
    let mut count = Count {
        left: wanted,
        begun: [false; 2],
        stream,
    };
    for (index, path) in files.iter().enumerate().rev() {
        let found = match File::open(path) {
            Ok(mut file) => in_file(&mut file, &mut count)?,
            // Pruned a moment ago: what is newer is all there is.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(offset) = found {
            return Ok(Place { file: index, offset });
        }
    }
    Ok(Place { file: 0, offset: 0 })
}

/// How many lines are still wanted, while entries are seen from the last one back.
struct Count {
    left: u64,
    /// Whether the end of a line of each stream was seen: parts before it are of it.
    begun: [bool; 2],
    stream: Option<LogStream>,
}

impl Count {
    /// Whether this entry is before all that is wanted.
    fn is_beyond(&mut self, line: &[u8]) -> bool {
        let Some(entry) = Entry::parse(line) else {
            return false;
        };
        if self.stream.is_some_and(|stream| stream != entry.stream) {
            return false;
        }
        // The last entry of a line, or the part that is last in the log.
        let begun = &mut self.begun[usize::from(entry.stream == LogStream::Stderr)];
        let ends_line = !entry.partial || !*begun;
        *begun = true;
        if ends_line {
            if self.left == 0 {
                return true;
            }
            self.left -= 1;
        }
        false
    }
}

/// The offset after the first entry, from the end, that is not wanted.
fn in_file(file: &mut File, count: &mut Count) -> io::Result<Option<u64>> {
    let mut begin = file.seek(SeekFrom::End(0))?;
    // What is known of the entry that crosses the beginning of the last block.
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

/// Where the last entry of the bytes begins; `None` if there are none left.
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
        let folder = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (number, content) in contents.iter().enumerate() {
            let path = folder.path().join(number.to_string());
            fs::write(&path, content).unwrap();
            paths.push(path);
        }
        (folder, paths)
    }

    fn rest(contents: &[String], wanted: u64, stream: Option<LogStream>) -> String {
        let (_folder, paths) = files(contents);
        let place = place(&paths, wanted, stream).unwrap();
        let text: String = contents[place.file..].concat();
        text[usize::try_from(place.offset).unwrap()..].to_owned()
    }

    #[test]
    fn the_last_lines_are_found_across_files_and_blocks() {
        // Each longer than a block holds many of, so that entries cross blocks.
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
    fn parts_are_one_line() {
        let text = entry("stdout F a") + &entry("stdout P b") + &entry("stdout P b") + &entry("stdout F b");
        let b = entry("stdout P b") + &entry("stdout P b") + &entry("stdout F b");
        assert_eq!(rest(std::slice::from_ref(&text), 1, None), b);
        let open = text.clone() + &entry("stdout P c");
        assert_eq!(rest(&[open], 1, None), entry("stdout P c"));
    }

    #[test]
    fn only_lines_of_the_stream_are_counted() {
        let text = entry("stdout F a") + &entry("stdout F b") + &entry("stderr F e") + &entry("stderr F f");
        let found = rest(&[text], 1, Some(LogStream::Stdout));
        assert!(found.starts_with(&entry("stdout F b")));
    }

    #[test]
    fn an_empty_log_begins_at_its_beginning() {
        assert_eq!(rest(&[String::new()], 3, None), "");
        assert_eq!(place(&[], 3, None).unwrap(), Place { file: 0, offset: 0 });
        let (_folder, mut paths) = files(&[entry("stdout F a")]);
        paths.insert(0, PathBuf::from("/nonexistent/pruned"));
        assert_eq!(place(&paths, 5, None).unwrap(), Place { file: 0, offset: 0 });
    }
}
