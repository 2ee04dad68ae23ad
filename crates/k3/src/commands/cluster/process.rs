//! Processes that outlive the command that started them, identified by files.
//!
//! A process whose id was reused is never taken for the recorded process, and never signalled. A zombie counts as exited.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::time::{sleep, timeout};

/// Interval between checks of a process.
const PAUSE: Duration = Duration::from_millis(50);

/// A started process, identified by id, start time and boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DetachedProcess {
    pid: i32,
    /// Start time in clock ticks since boot.
    started: u64,
    /// The boot id.
    boot: String,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopOutcome {
    /// It was not running.
    NotRunning,
    /// It exited after SIGTERM.
    Terminated,
    /// It did not exit within the grace period and was killed.
    Killed,
}

// --- DetachedProcess ---

impl DetachedProcess {
    /// Starts a program that outlives this process and writes its identity to `file`. Output is appended to `log`.
    pub(super) fn start(command: &mut Command, file: &Path, log: &Path) -> io::Result<Child> {
        let log = k3_files::open(log, OpenOptions::new().create(true).append(true))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A process group of its own, so that Ctrl-C in the terminal does not signal it.
            .process_group(0)
            .spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        // The child was not reaped yet, so /proc lists it, if only as a zombie.
        let (_, started) = stat(pid).ok_or_else(|| io::Error::other("it is not in /proc"))?;
        // Rename the file into place: a partly written file would look like no process.
        let new = file.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let mut out = k3_files::open(&new, &mut options)?;
        out.write_all(format!("{pid} {started} {}\n", boot()?).as_bytes())?;
        fs::rename(new, file)?;
        Ok(child)
    }

    /// Returns the process recorded in a file if it still runs.
    pub(super) fn find(file: &Path) -> Option<Self> {
        Self::last_started(file).filter(Self::is_alive)
    }

    /// Returns the process recorded in a file, running or not.
    pub(super) fn last_started(file: &Path) -> Option<Self> {
        let text = fs::read_to_string(file).ok()?;
        let mut fields = text.split_whitespace();
        Some(Self {
            pid: fields.next()?.parse().ok()?,
            started: fields.next()?.parse().ok()?,
            boot: fields.next()?.to_owned(),
        })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether the process runs.
    pub(super) fn is_alive(&self) -> bool {
        let is_same = |(state, started)| started == self.started && state != 'Z' && state != 'X';
        stat(self.pid).is_some_and(is_same) && boot().is_ok_and(|boot| boot == self.boot)
    }

    /// Sends SIGTERM, and SIGKILL after `grace`.
    pub(super) async fn stop(&self, grace: Duration) -> io::Result<StopOutcome> {
        let Some(handle) = self.handle()? else {
            return Ok(StopOutcome::NotRunning);
        };
        pidfd_send_signal(&handle, Signal::TERM)?;
        if timeout(grace, self.wait_for_exit()).await.is_ok() {
            return Ok(StopOutcome::Terminated);
        }
        pidfd_send_signal(&handle, Signal::KILL)?;
        self.wait_for_exit().await;
        Ok(StopOutcome::Killed)
    }

    /// A pidfd, which stays valid for this process when its id is reused.
    fn handle(&self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return Ok(None);
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // Check the identity after opening the pidfd: the descriptor then refers to the checked process.
            Ok(handle) => Ok(self.is_alive().then_some(handle)),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn wait_for_exit(&self) {
        while self.is_alive() {
            sleep(PAUSE).await;
        }
    }
}

/// Returns the state letter and the start time of a process, as in proc(5).
fn stat(pid: i32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name before it is in parentheses and may contain any character.
    let mut fields = text.rsplit_once(") ")?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    // proc(5) counts fields from 1; the state is field 3, the start time field 22.
    let started = fields.nth(18)?.parse().ok()?;
    Some((state, started))
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(directory: &Path, script: &str) -> (Child, DetachedProcess) {
        let mut command = Command::new("sh");
        let file = directory.join("pid");
        command.args(["-c", script]);
        let child = DetachedProcess::start(&mut command, &file, &directory.join("log")).unwrap();
        (child, DetachedProcess::find(&file).unwrap())
    }

    #[tokio::test]
    async fn finds_a_process_by_its_file_until_it_exits() {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, process) = sleeper(directory.path(), "exec sleep 600");
        let file = directory.path().join("pid");
        assert_eq!(DetachedProcess::find(&file).as_ref(), Some(&process));
        assert_eq!(
            process.stop(Duration::from_secs(30)).await.unwrap(),
            StopOutcome::Terminated
        );
        assert_eq!(DetachedProcess::find(&file), None);
        assert_eq!(
            process.stop(Duration::ZERO).await.unwrap(),
            StopOutcome::NotRunning
        );
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn kills_a_process_that_ignores_sigterm() {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, process) = sleeper(
            directory.path(),
            "trap '' TERM; echo ready; while :; do sleep 1; done",
        );
        let log = directory.path().join("log");
        while !fs::read_to_string(&log).unwrap().contains("ready") {
            sleep(PAUSE).await;
        }
        assert_eq!(
            process.stop(Duration::from_millis(200)).await.unwrap(),
            StopOutcome::Killed
        );
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn ignores_another_process_with_the_same_id() {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, process) = sleeper(directory.path(), "exec sleep 600");
        let file = directory.path().join("pid");
        for (started, boot) in [
            (process.started + 1, process.boot.as_str()),
            (process.started, "other"),
        ] {
            fs::write(&file, format!("{} {started} {boot}\n", process.pid)).unwrap();
            assert_eq!(DetachedProcess::find(&file), None);
            let stranger = DetachedProcess {
                pid: process.pid,
                started,
                boot: boot.to_owned(),
            };
            assert_eq!(
                stranger.stop(Duration::ZERO).await.unwrap(),
                StopOutcome::NotRunning
            );
            assert!(process.is_alive());
        }
        process.stop(Duration::from_secs(30)).await.unwrap();
        child.wait().unwrap();
    }
}
