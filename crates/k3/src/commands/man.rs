//! `k3 man`: manual pages, generated from the help texts.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Args, Command};
use clap_mangen::Man;

use crate::command_error::CommandError;

const EXAMPLES: &str = "\
Examples:
  k3 man | man -l -
      shows the page of the whole command

  k3 man --dir /usr/local/share/man/man1
      writes a page for each command: k3.1, k3-start.1, k3-token-create.1, ...

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Print the manual page, or write the pages of all commands.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ManFlags {
    /// Directory to write the pages of all commands to
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(flags: &ManFlags, command: Command) -> Result<(), CommandError> {
    let unwritten = |error: io::Error| {
        CommandError::new(
            "failed to write the manual pages",
            "name a directory that this user may write to with --dir",
        )
        .caused_by(error)
    };
    match &flags.dir {
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page).map_err(unwritten)?;
            print_text!("{}", String::from_utf8_lossy(&page));
            Ok(())
        }
        Some(directory) => {
            fs::create_dir_all(directory).map_err(unwritten)?;
            let written = pages(&command, "", directory).map_err(unwritten)?;
            print_line!("{written} pages in {}", directory.display());
            Ok(())
        }
    }
}

/// Writes the pages of a command and its subcommands, and returns their number.
fn pages(command: &Command, above: &str, directory: &Path) -> io::Result<usize> {
    let name = if above.is_empty() {
        command.get_name().to_owned()
    } else {
        format!("{above}-{}", command.get_name())
    };
    let mut page = Vec::new();
    Man::new(command.clone().name(name.clone())).render(&mut page)?;
    fs::write(directory.join(format!("{name}.1")), page)?;
    let mut written = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        written += pages(below, &name, directory)?;
    }
    Ok(written)
}
