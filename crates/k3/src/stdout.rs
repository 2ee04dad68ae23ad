//! Standard output of the commands.
//!
//! A reader that closes the pipe early (`k3 config show | head -1`) is not an error. Any other failed write, such as to a full
//! disk, makes the command fail at its end.

use std::{
    fmt,
    io::{self, Write},
};

use parking_lot::Mutex;

/// The first write error, except for a closed pipe.
static WRITE_ERROR: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints to standard output, as `print!` does, but survives a closed pipe.
macro_rules! print_text {
    ($($argument:tt)*) => { $crate::stdout::write(format_args!($($argument)*)) };
}

/// Prints a line to standard output, as `println!` does, but survives a closed pipe.
macro_rules! print_line {
    ($($argument:tt)*) => { $crate::stdout::write(format_args!("{}\n", format_args!($($argument)*))) };
}

/// Writes to standard output and flushes it.
pub(crate) fn write(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let written = out.write_fmt(text).and_then(|()| out.flush());
    if let Err(error) = written {
        record_error(error);
    }
}

/// Returns the first write error.
pub(crate) fn take_error() -> Option<io::Error> {
    WRITE_ERROR.lock().take()
}

fn record_error(error: io::Error) {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return;
    }
    let mut first = WRITE_ERROR.lock();
    first.get_or_insert(error);
}
