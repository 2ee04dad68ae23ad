//! The play: where the recordings are, a server for them, the player, and what it found.
//!
//! Promises: nothing counts as passed that was not played; the server that was started ends, whatever happens.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use k3_test_services::find_program;

use super::{
    score::{Score, ScoreError},
    server::{self, BuildError, GoldenServer, ProgramBuild, StartError},
};
use crate::{Outcome, counts::Counts, step, workspace::Workspace};

/// What to play, and how much to print.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct GoldenOptions {
    /// A pattern over `category/name`; all when empty.
    pub(crate) filter: String,
    /// Differences shown for each case that failed.
    pub(crate) show: usize,
    /// Whether all tests have been built, and the program with them.
    pub(crate) with_tests: bool,
}

/// Recordings of one kind, and the server they are played against.
struct Set {
    /// Their directory.
    directory: &'static str,
    /// Flags of the server for this set, beside those of every set.
    setup: &'static [&'static str],
    /// How many are played side by side.
    jobs: &'static str,
}

/// Requests and answers of an API server on its own, and what controllers do.
const SETS: [Set; 2] = [
    Set {
        directory: "cases",
        setup: &["--controllers="],
        jobs: "12",
    },
    Set {
        directory: "scenarios",
        setup: &[],
        // They wait for what controllers do, most of the time.
        jobs: "8",
    },
];

/// How long a play may take: some ten times what it takes.
const LIMIT_SECONDS: &str = "900";
/// The exit code of `timeout` when the time was over.
const TIMED_OUT: i32 = 124;

/// Whether there is something to play.
#[derive(Debug, PartialEq, Eq)]
enum Recordings {
    Here,
    /// Not here, and not required.
    LeftOut,
    /// Not here, and they are asked for.
    Missing,
}

/// Whether recordings must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

/// Why nothing was played.
#[derive(Debug, thiserror::Error)]
enum PlayError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("`python3` is not installed, and the player needs it")]
    NoPython,
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("cannot run the player: {0}")]
    Player(#[source] io::Error),
    #[error("the play was not over after {LIMIT_SECONDS} s; a request may hang")]
    TimedOut,
    #[error(transparent)]
    Score(#[from] ScoreError),
}

pub(crate) fn run(workspace: &Workspace, options: &GoldenOptions) -> Outcome {
    if count(workspace, options).failed == 0 {
        Outcome::Done
    } else {
        Outcome::Failed
    }
}

/// One that passed or failed if there was something to play, else none.
pub(crate) fn count(workspace: &Workspace, options: &GoldenOptions) -> Counts {
    let directory =
        env::var_os("K3_GOLDEN").map_or_else(|| workspace.root().join("../shared/golden"), PathBuf::from);
    let need = match env::var_os("K3_REQUIRE_GOLDEN") {
        Some(value) if value == "1" => Need::Required,
        _ => Need::Optional,
    };
    match recordings(&directory, need) {
        Recordings::Here => Counts::of(play(workspace, &directory, options)),
        Recordings::LeftOut => {
            println!("golden: left out, no recordings here (K3_GOLDEN names their directory)");
            Counts::default()
        }
        Recordings::Missing => {
            println!("golden: no recordings (K3_GOLDEN), and K3_REQUIRE_GOLDEN=1 asks for them");
            Counts::of(Outcome::Failed)
        }
    }
}

fn recordings(directory: &Path, need: Need) -> Recordings {
    let is_there = SETS.iter().all(|set| directory.join(set.directory).is_dir());
    match (is_there, need) {
        (true, _) => Recordings::Here,
        (false, Need::Optional) => Recordings::LeftOut,
        (false, Need::Required) => Recordings::Missing,
    }
}

fn play(workspace: &Workspace, directory: &Path, options: &GoldenOptions) -> Outcome {
    match play_all(workspace, directory, options) {
        Ok(scores) if scores.is_empty() => {
            eprintln!("xtask: golden: no recording is called {}", options.filter);
            Outcome::Failed
        }
        Ok(scores) if scores.iter().all(|score| score.outcome() == Outcome::Done) => Outcome::Done,
        Ok(_) => Outcome::Failed,
        Err(problem) => {
            eprintln!("xtask: golden: {problem}");
            Outcome::Failed
        }
    }
}

/// Plays each set against a server of its own.
fn play_all(
    workspace: &Workspace,
    directory: &Path,
    options: &GoldenOptions,
) -> Result<Vec<Score>, PlayError> {
    let build = if options.with_tests {
        ProgramBuild::WithTests
    } else {
        ProgramBuild::Alone
    };
    let program = server::build(workspace, build)?;
    let python = find_program("python3").ok_or(PlayError::NoPython)?;
    let mut scores = Vec::new();
    for set in &SETS {
        let server = server::start(&program, &python, &directory.join("tokens.csv"), set.setup)?;
        let output = player(&python, directory, set, &server, options)?;
        let score = Score::read(&output)?;
        // A filter may be for one of the sets alone.
        if options.filter.is_empty() || !score.is_empty() {
            score.show_differences(options.show);
            println!("{}\n{score}", set.directory);
            scores.push(score);
        }
    }
    Ok(scores)
}

/// The output of the player.
fn player(
    python: &Path,
    directory: &Path,
    set: &Set,
    server: &GoldenServer,
    options: &GoldenOptions,
) -> Result<Vec<u8>, PlayError> {
    step::headline(&format!("playing the recorded {}", set.directory));
    // A server that does not answer makes the player wait a minute for each request.
    let mut command = Command::new("timeout");
    command
        // In our own group of processes, so that Ctrl-C reaches it too.
        .args(["--foreground", LIMIT_SECONDS])
        .arg(python)
        // The recordings are not part of this project: leave no compiled files in it.
        .arg("-B")
        .arg(directory.join("play.py"))
        .arg(directory.join(set.directory))
        .args(["--jobs", set.jobs])
        .args(["--json", "--server", &server.url, "--ca"])
        .arg(&server.authority);
    if !options.filter.is_empty() {
        command.args(["--filter", &options.filter]);
    }
    // Its exit code says whether every case passed, which is not what is asked here.
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(PlayError::Player)?;
    if output.status.code() == Some(TIMED_OUT) {
        return Err(PlayError::TimedOut);
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn absent_recordings_fail_only_where_they_are_required() {
        let absent = Path::new("no-such-directory");
        assert_eq!(recordings(absent, Need::Optional), Recordings::LeftOut);
        assert_eq!(recordings(absent, Need::Required), Recordings::Missing);
    }

    #[test]
    fn recordings_are_a_directory_with_all_sets() {
        let directory = env::temp_dir().join(format!("k3-golden-{}", std::process::id()));
        fs::create_dir_all(directory.join("cases")).unwrap();
        assert_eq!(recordings(&directory, Need::Required), Recordings::Missing);
        fs::create_dir_all(directory.join("scenarios")).unwrap();
        assert_eq!(recordings(&directory, Need::Required), Recordings::Here);
        fs::remove_dir_all(&directory).unwrap();
    }
}
