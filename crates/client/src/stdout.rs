//! Standard output: its width, and whether it shows colours.

use std::{
    env,
    io::{self, BufWriter, IsTerminal, Write},
};

use rustix::termios::tcgetwinsize;

/// Buffered standard output; `flush` writes it.
pub(crate) struct StdoutWriter {
    out: BufWriter<OutputSink>,
    /// Columns of the terminal; `None` when stdout is not a terminal.
    pub(crate) width: Option<usize>,
    /// Whether to write colour codes: not with `NO_COLOR`, and not to a file or pipe.
    pub(crate) has_colours: bool,
}

#[cfg(not(test))]
type OutputSink = io::Stdout;
#[cfg(test)]
type OutputSink = crate::testing::CapturedOutput;

#[cfg(not(test))]
fn output_sink() -> OutputSink {
    io::stdout()
}

#[cfg(test)]
fn output_sink() -> OutputSink {
    crate::testing::CapturedOutput
}

/// A colour or weight of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextColour {
    Bold,
    Good,
    Waiting,
    Bad,
}

// --- StdoutWriter ---

impl StdoutWriter {
    pub(crate) fn open() -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let width = is_terminal
            .then(|| tcgetwinsize(&stdout).ok())
            .flatten()
            .map(|size| usize::from(size.ws_col))
            .filter(|width| *width > 0);
        let is_plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            width,
            has_colours: is_terminal && !is_plain,
            out: BufWriter::with_capacity(64 << 10, output_sink()),
        }
    }
}

impl Write for StdoutWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

// --- TextColour ---

impl TextColour {
    /// The escape sequence that starts the colour.
    pub(crate) fn begin(self) -> &'static str {
        match self {
            Self::Bold => "\x1b[1m",
            Self::Good => "\x1b[32m",
            Self::Waiting => "\x1b[33m",
            Self::Bad => "\x1b[31m",
        }
    }

    /// The escape sequence that ends any colour.
    pub(crate) const END: &str = "\x1b[0m";

    /// Returns the colour of a status such as `Running` or `CrashLoopBackOff`.
    pub(crate) fn of_status(word: &str) -> Option<Self> {
        let first = word.split([',', ':']).next().unwrap_or(word);
        match first {
            "Running" | "Ready" | "Active" | "Bound" | "Completed" | "Complete" | "Succeeded" | "True"
            | "Available" | "Normal" => Some(Self::Good),
            "Pending" | "ContainerCreating" | "PodInitializing" | "Terminating" | "Unknown" | "Warning"
            | "Init" | "Released" => Some(Self::Waiting),
            "Failed" | "Error" | "NotReady" | "Evicted" | "OOMKilled" | "Lost" => Some(Self::Bad),
            word if word.contains("BackOff") || word.starts_with("Err") || word.ends_with("Error") => {
                Some(Self::Bad)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_the_status() {
        assert_eq!(TextColour::of_status("Running"), Some(TextColour::Good));
        assert_eq!(
            TextColour::of_status("Ready,SchedulingDisabled"),
            Some(TextColour::Good)
        );
        assert_eq!(TextColour::of_status("Init:0/1"), Some(TextColour::Waiting));
        assert_eq!(TextColour::of_status("CrashLoopBackOff"), Some(TextColour::Bad));
        assert_eq!(TextColour::of_status("web"), None);
    }
}
