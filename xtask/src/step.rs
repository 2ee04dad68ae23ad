//! Running one command as a step of a chore.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    process::{Command, Stdio},
    thread,
};

use crate::Outcome;

/// A finished command of which the output was kept.
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    /// Standard output, then standard error.
    pub(crate) output: String,
}

/// Runs `command` and shows its output.
pub(crate) fn run(command: &mut Command) -> Outcome {
    announce(command);
    match command.status() {
        Ok(status) if status.success() => Outcome::Done,
        Ok(_) => Outcome::Failed,
        Err(error) => cannot_run(command, &error),
    }
}

/// Runs `command`, shows its output as it is written, and keeps it.
pub(crate) fn run_and_keep(command: &mut Command) -> Ran {
    announce(command);
    match try_run_and_keep(command) {
        Ok(ran) => ran,
        Err(error) => Ran {
            outcome: cannot_run(command, &error),
            output: String::new(),
        },
    }
}

/// Prints the headline of a step.
pub(crate) fn headline(text: &str) {
    println!("==> {text}");
}

fn try_run_and_keep(command: &mut Command) -> io::Result<Ran> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().expect("standard output is piped");
    let stderr = child.stderr.take().expect("standard error is piped");
    let output = thread::scope(|scope| {
        let errors = scope.spawn(|| pass_on(stderr, io::stderr()));
        let mut output = pass_on(stdout, io::stdout());
        output.push_str(&errors.join().expect("passing on output does not panic"));
        output
    });
    let outcome = if child.wait()?.success() {
        Outcome::Done
    } else {
        Outcome::Failed
    };
    Ok(Ran { outcome, output })
}

/// Copies lines until the end, and returns them.
fn pass_on(from: impl Read, mut to: impl Write) -> String {
    let mut from = BufReader::new(from);
    let mut kept = String::new();
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        // A reader that left (`| head`) must not stop the tests: their counts are still wanted.
        let _ = to.write_all(&line);
        kept.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    kept
}

fn announce(command: &Command) {
    let arguments = [command.get_program()].into_iter().chain(command.get_args());
    let arguments: Vec<_> = arguments.map(|argument| argument.to_string_lossy()).collect();
    let program = arguments[0]
        .rsplit('/')
        .next()
        .expect("rsplit yields at least one part");
    headline(&format!("{program} {}", arguments[1..].join(" ")));
}

fn cannot_run(command: &Command, error: &io::Error) -> Outcome {
    eprintln!(
        "xtask: cannot run {}: {error}",
        command.get_program().to_string_lossy()
    );
    Outcome::Failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_both_kinds_is_kept_and_a_failure_seen() {
        let ran = run_and_keep(Command::new("sh").args(["-c", "echo to-out; echo to-err >&2; exit 3"]));
        assert_eq!(ran.output, "to-out\nto-err\n");
        assert_eq!(ran.outcome, Outcome::Failed);
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failure() {
        assert_eq!(run(&mut Command::new("no-such-program")), Outcome::Failed);
    }
}
