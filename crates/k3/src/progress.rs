//! Progress of long commands.
//!
//! On a terminal it is one line on stderr that is updated in place and removed at the end. Otherwise nothing is printed.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use k3_storage::transfer::TransferProgress;
use tokio::time::Instant;

/// Minimum time between updates.
const PAUSE: Duration = Duration::from_millis(100);

/// The progress line of one operation.
pub(crate) struct ProgressLine<W: Write = io::Stderr> {
    /// `None` if standard error is not a terminal.
    out: Option<W>,
    /// A past participle such as `copied`.
    verb: &'static str,
    started: Instant,
    last_update: Option<Instant>,
}

// --- ProgressLine ---

impl ProgressLine {
    /// A line on standard error, if that is a terminal.
    pub(crate) fn new(verb: &'static str) -> Self {
        let stderr = io::stderr();
        let out = stderr.is_terminal().then_some(stderr);
        ProgressLine::to(out, verb)
    }
}

impl<W: Write> ProgressLine<W> {
    fn to(out: Option<W>, verb: &'static str) -> Self {
        ProgressLine {
            out,
            verb,
            started: Instant::now(),
            last_update: None,
        }
    }

    /// Updates the line.
    pub(crate) fn update(&mut self, moved: TransferProgress) {
        let Some(out) = &mut self.out else { return };
        let spent = self.started.elapsed();
        if self
            .last_update
            .is_some_and(|last_update| last_update.elapsed() < PAUSE)
        {
            return;
        }
        self.last_update = Some(self.started + spent);
        // A closed terminal does not stop the operation.
        let _ = write!(out, "\r\x1b[K{}", line(self.verb, moved, spent));
        let _ = out.flush();
    }

    /// Removes the line, and returns the elapsed time.
    pub(crate) fn end(mut self) -> Duration {
        if let Some(out) = &mut self.out {
            let _ = write!(out, "\r\x1b[K");
            let _ = out.flush();
        }
        self.started.elapsed()
    }
}

/// Amount and rate: `copied 50000 objects, 12.3 MiB, 8000/s`.
pub(crate) fn line(verb: &str, moved: TransferProgress, spent: Duration) -> String {
    let per_second = u128::from(moved.entries) * 1000 / spent.as_millis().max(1);
    format!(
        "{verb} {} objects, {}, {per_second}/s",
        moved.entries,
        size(moved.bytes)
    )
}

/// A number of bytes with a binary unit.
pub(crate) fn size(bytes: u64) -> String {
    const STEPS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (step, name) in STEPS {
        if bytes >= step {
            let tenths = u128::from(bytes) * 10 / u128::from(step);
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOVED: TransferProgress = TransferProgress {
        entries: 50_000,
        bytes: 12_900_000,
    };

    #[test]
    fn formats_sizes_and_rates() {
        assert_eq!(
            line("copied", MOVED, Duration::from_millis(6250)),
            "copied 50000 objects, 12.3 MiB, 8000/s"
        );
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(3 << 29), "1.5 GiB");
    }

    #[test]
    fn writes_one_line_to_a_terminal_and_nothing_to_a_pipe() {
        let mut shown = Vec::new();
        let mut progress = ProgressLine::to(Some(&mut shown), "copied");
        progress.update(MOVED);
        progress.update(MOVED);
        progress.end();
        let shown = String::from_utf8(shown).unwrap();
        assert_eq!(shown.matches("copied").count(), 1, "{shown:?}");
        assert!(!shown.contains('\n') && shown.ends_with("\x1b[K"), "{shown:?}");
        let mut disabled = ProgressLine::<Vec<u8>>::to(None, "copied");
        disabled.update(MOVED);
    }
}
