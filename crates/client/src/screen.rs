//! Standard output: how wide it is, and whether there is somebody to show colours to.

use std::{
    env,
    io::{self, BufWriter, IsTerminal, Stdout, Write},
};

use rustix::termios::tcgetwinsize;

/// Where answers go. What is written is held back until `flush`.
pub(crate) struct Screen {
    out: BufWriter<Stdout>,
    /// Letters in a line, if it is a terminal.
    pub(crate) width: Option<usize>,
    /// Whether colours are shown.
    pub(crate) has_colours: bool,
}

/// What a text is shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Bold,
    Good,
    Waiting,
    Bad,
}

// --- Screen ---

impl Screen {
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
            out: BufWriter::with_capacity(64 << 10, stdout),
        }
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

// --- Colour ---

impl Colour {
    /// What makes a terminal show it.
    pub(crate) fn begin(self) -> &'static str {
        match self {
            Self::Bold => "\x1b[1m",
            Self::Good => "\x1b[32m",
            Self::Waiting => "\x1b[33m",
            Self::Bad => "\x1b[31m",
        }
    }

    /// What ends any.
    pub(crate) const END: &str = "\x1b[0m";

    /// That of a status, if it says something good or bad.
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
    fn a_status_has_the_colour_of_what_it_means() {
        assert_eq!(Colour::of_status("Running"), Some(Colour::Good));
        assert_eq!(Colour::of_status("Ready,SchedulingDisabled"), Some(Colour::Good));
        assert_eq!(Colour::of_status("Init:0/1"), Some(Colour::Waiting));
        assert_eq!(Colour::of_status("CrashLoopBackOff"), Some(Colour::Bad));
        assert_eq!(Colour::of_status("web"), None);
    }
}
