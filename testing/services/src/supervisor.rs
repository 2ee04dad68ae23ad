//! One service process, ended with its owner.
//!
//! Promise: when the owner ends, the process ends and its directory is removed, also when the owner was killed
//! with SIGKILL and could not clean up. A small shell holds the other end of a pipe for that: its input
//! ends when the owner does, and then it kills and removes.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, BufRead, BufReader, ErrorKind, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use parking_lot::{Mutex, MutexGuard};

use crate::{
    ServiceError,
    patience::{self, wait_for},
    port::random,
};

const SCRIPT: &str = include_str!("supervise.sh");

/// How many lines of a failed service's log an error shows.
const LOG_LINES: usize = 40;

/// The directory of a service. The supervisor removes it; before one is started, dropping it does.
pub(crate) struct ServiceDirectory {
    path: PathBuf,
    owned: bool,
}

/// A command under supervision.
pub(crate) struct Supervisor {
    service: &'static str,
    directory: PathBuf,
    shell: Child,
    orders: Mutex<Orders>,
}

/// The line to the shell.
struct Orders {
    /// `None` once closed, which is the order to clean up.
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    /// The service's process; `None` before the first start and after a kill.
    pid: Option<u32>,
}

// --- ServiceDirectory ---

impl ServiceDirectory {
    /// Makes a new directory under `parent`, or under the system's temporary directory.
    pub(crate) fn make(service: &str, parent: Option<&Path>) -> Result<Self, ServiceError> {
        let parent = parent.map_or_else(env::temp_dir, Path::to_path_buf);
        let path = parent.join(format!("k3-{service}-{}-{:016x}", std::process::id(), random()));
        fs::create_dir_all(&path).map_err(ServiceError::io("make the service's directory"))?;
        Ok(Self { path, owned: true })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ServiceDirectory {
    fn drop(&mut self) {
        if self.owned {
            // Best effort: the directory is a temporary one.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

// --- Supervisor ---

impl Supervisor {
    /// Prepares to run `command` in `directory`; nothing is started yet.
    pub(crate) fn new(
        service: &'static str,
        mut directory: ServiceDirectory,
        command: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, ServiceError> {
        let mut shell = Command::new("sh")
            .arg("-c")
            .arg(SCRIPT)
            .arg("k3-supervise")
            .arg(&directory.path)
            .args(command)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A group of its own: Ctrl-C and a test runner's time-out hit the owner's whole group, and
            // the shell must outlive them to clean up.
            .process_group(0)
            .spawn()
            .map_err(ServiceError::io("start the supervising shell"))?;
        let to = shell.stdin.take();
        let from = shell.stdout.take().expect("standard output is piped");
        directory.owned = false;
        Ok(Self {
            service,
            directory: directory.path.clone(),
            shell,
            orders: Mutex::new(Orders {
                to,
                from: BufReader::new(from),
                pid: None,
            }),
        })
    }

    /// Starts the service, after killing the one that runs, and waits until `ready`.
    pub(crate) fn start(&self, ready: impl Fn(&str) -> bool) -> Result<(), ServiceError> {
        self.order("start")?;
        let outcome = wait_for(patience::START, || {
            if !self.is_running() {
                return Some(Err(ServiceError::Ended {
                    service: self.service,
                    log: self.log_end(),
                }));
            }
            ready(&self.log()).then_some(Ok(()))
        });
        outcome.unwrap_or_else(|| {
            Err(ServiceError::NotReady {
                service: self.service,
                seconds: patience::START.as_secs(),
                log: self.log_end(),
            })
        })
    }

    /// As [`Supervisor::start`], where the port was ours a moment ago: another process may hold it for
    /// a while, and is waited for.
    pub(crate) fn restart(&self, ready: impl Fn(&str) -> bool) -> Result<(), ServiceError> {
        let mut last = None;
        let outcome = wait_for(patience::START, || match self.start(&ready) {
            Err(error) if error.is_port_taken() => {
                last = Some(error);
                None
            }
            outcome => Some(outcome),
        });
        outcome.unwrap_or_else(|| Err(last.expect("the loop ends early unless the port was taken")))
    }

    /// Ends the service at once (SIGKILL). The directory stays.
    pub(crate) fn kill(&self) -> Result<(), ServiceError> {
        self.order("kill").map(drop)
    }

    /// Pauses the service with SIGSTOP: connections stay open without responses.
    pub(crate) fn pause(&self) -> Result<(), ServiceError> {
        let pid = self.order("pause")?;
        wait_for(patience::SIGNAL, || (state_of(pid?) == Some('T')).then_some(()));
        Ok(())
    }

    /// Lets a frozen service go on (SIGCONT).
    pub(crate) fn resume(&self) -> Result<(), ServiceError> {
        self.order("resume").map(drop)
    }

    /// The service's process id, while it has one.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.orders().pid
    }

    /// The output of the service since its last start.
    fn log(&self) -> String {
        let bytes = fs::read(self.directory.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn log_end(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    fn is_running(&self) -> bool {
        // A dead child stays a zombie until the shell waits for it.
        self.pid().and_then(state_of).is_some_and(|state| state != 'Z')
    }

    /// Sends a command and waits until it is executed.
    fn order(&self, order: &str) -> Result<Option<u32>, ServiceError> {
        let mut orders = self.orders();
        let to = orders.to.as_mut().expect("the line is open until drop");
        writeln!(to, "{order}").map_err(ServiceError::io("reach the supervising shell"))?;
        let mut answer = String::new();
        let answered = match orders.from.read_line(&mut answer) {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "it was killed")),
            other => other,
        };
        answered.map_err(ServiceError::io("hear the supervising shell"))?;
        orders.pid = answer.trim().parse().ok();
        Ok(orders.pid)
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        // A panic in between leaves at worst an answer unread, and the test has failed already.
        self.orders.lock()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.orders().to = None;
        // Best effort: a shell that has exited needs no wait.
        let _ = self.shell.wait();
    }
}

/// The state letter of a process, as in proc(5); `None` when there is no such process.
fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it stands in parentheses and may hold anything.
    stat.rsplit_once(") ")?.1.chars().next()
}
