//! The parent's hold on a child.

use std::{process::Stdio, sync::Arc, time::Duration};

use k3_storage::Revision;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    sync::mpsc,
    task::JoinHandle,
};

use super::{
    address::Address,
    child::{FIRST, JOB, NAME, SPAN, STORE},
    protocol::Message,
};
use crate::store_ext::soon;

/// What a child is to do.
pub(crate) enum ChildJob {
    /// To write, with requests of these numbers on, and to compact meanwhile between these revisions.
    Write {
        first: u64,
        compact: Option<(Revision, Revision)>,
    },
    /// To watch.
    Watch { after: Revision },
}

/// A child that runs. Dropping it kills it.
pub(crate) struct ChildProcess {
    child: Child,
    /// What it reports. Closed when it has ended, after all it said.
    pub(crate) messages: mpsc::UnboundedReceiver<Message>,
    reader: Arc<Reader>,
}

/// Reads what the child reports as it reports it: a child whose output is not read blocks.
struct Reader(JoinHandle<()>);

// --- ChildProcess ---

impl ChildProcess {
    pub(crate) fn start(store: &Address, job: &ChildJob) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([NAME, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(STORE, store.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        match job {
            ChildJob::Write { first, compact } => {
                command.env(JOB, "write").env(FIRST, first.to_string());
                if let Some((from, upto)) = compact {
                    command.env(SPAN, format!("{from} {upto}"));
                }
            }
            ChildJob::Watch { after } => {
                command.env(JOB, "watch").env(SPAN, after.to_string());
            }
        }
        let mut child = command.spawn().unwrap();
        let out = child.stdout.take().expect("it is piped");
        let (sender, messages) = mpsc::unbounded_channel();
        Self {
            child,
            messages,
            reader: Arc::new(Reader::start(BufReader::new(out).lines(), sender)),
        }
    }

    /// The next word.
    pub(crate) async fn message(&mut self) -> Message {
        soon("a message of a child", self.messages.recv())
            .await
            .expect("the child ended by itself")
    }

    /// Hears the child for a while, and in any case what it has said already.
    pub(crate) async fn hear(&mut self, time: Duration, mut note: impl FnMut(Message)) {
        for _ in 0..self.messages.len() {
            note(self.message().await);
        }
        let end = tokio::time::Instant::now() + time;
        // A time-out alone never arrives while there is always another word: the clock is asked as well.
        while tokio::time::Instant::now() < end {
            let Ok(message) = tokio::time::timeout_at(end, self.messages.recv()).await else {
                return;
            };
            note(message.expect("the child ended by itself"));
        }
    }

    /// Kills the child, and returns what it had said and was not read yet.
    pub(crate) async fn kill(mut self) -> Vec<Message> {
        self.child.kill().await.unwrap();
        let mut rest = Vec::new();
        while let Some(message) = soon("the last messages", self.messages.recv()).await {
            rest.push(message);
        }
        drop(self.reader);
        rest
    }

    /// Stops the child where it is, and waits until it stands still.
    pub(crate) async fn pause(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        soon("a child that stands still", async {
            while !self.stands_still() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    /// Lets the child continue.
    pub(crate) fn resume(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// Whether all of its threads are stopped.
    fn stands_still(&self) -> bool {
        let tasks = format!("/proc/{}/task", self.pid().as_raw_nonzero());
        std::fs::read_dir(tasks).unwrap().all(|task| {
            // A thread may have ended since it was listed. The state follows the name, which is in parentheses and may
            // hold any character.
            std::fs::read_to_string(task.unwrap().path().join("stat")).is_ok_and(|stat| {
                stat.rsplit_once(") ")
                    .is_some_and(|(_, rest)| rest.starts_with('T'))
            })
        })
    }

    fn pid(&self) -> Pid {
        let pid = self.child.id().expect("it has not been waited for");
        Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
    }
}

// --- Reader ---

impl Reader {
    #[expect(
        clippy::disallowed_methods,
        reason = "the handle is kept, and aborts the task on drop"
    )]
    fn start(mut lines: Lines<BufReader<ChildStdout>>, messages: mpsc::UnboundedSender<Message>) -> Self {
        Self(tokio::spawn(async move {
            while let Some(line) = lines.next_line().await.unwrap() {
                // The test harness prints other lines.
                let Ok(message) = line.parse() else { continue };
                if messages.send(message).is_err() {
                    return;
                }
            }
        }))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}
