//! JSON pointers (RFC 6901).

// upstream: vendor/gopkg.in/evanphx/json-patch.v4/patch.go findObject, decodePatchKey

use std::io;

use serde_json::Value;

/// The position an index means in a list of this length. It may count from the end.
pub(super) fn index(text: &str, length: usize) -> Option<usize> {
    let number: i64 = text.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let number = if number < 0 { number + length } else { number };
    if (0..length).contains(&number) {
        usize::try_from(number).ok()
    } else {
        None
    }
}

/// How many bytes a value takes as text.
pub(super) fn json_length(value: &Value) -> usize {
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).expect("counting bytes succeeds");
    counter.0
}

pub(super) fn unescape(part: &str) -> String {
    // In this order, or `~01` would become a slash.
    if part.contains('~') {
        part.replace("~1", "/").replace("~0", "~")
    } else {
        part.to_owned()
    }
}

struct Counter(usize);

// --- Counter ---

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
