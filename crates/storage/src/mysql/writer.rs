//! The writer task of a process: all waiting writes share a transaction (group commit).
//!
//! Guarantees: a single write does not wait for others; every write completes within about twice the request timeout;
//! success and failure are reported only if they are certain.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    commit_plan::WriteOutcome,
    commit_publisher::{CommitPublisher, PublishResult},
    connection::{Connection, ConnectionFactory, ConnectionRole},
    failure::{MysqlFailure, timed_out},
    pool::RetryTimer,
    statement::{MAX_ROWS, fits, row_bytes},
    transaction::{GroupOutcome, StagedGroup, group_outcome, stage},
};
use crate::{CommitError, Operation, Revision, StoreError, Write};

/// Writes that may wait before the next has to wait for a location.
const QUEUE: usize = 1024;
/// The bytes of one transaction, about: a group of large values must not keep small ones waiting long.
const GROUP_BYTES: usize = 8 * 1024 * 1024;

/// After how long without a write the connection is prepared to rest. Well below the second after which the server
/// closes a connection that is in use: a busy writer does not pay for it.
const IDLE: Duration = Duration::from_millis(200);
/// How long that may take, while writes that arrive wait.
const REST_LIMIT: Duration = Duration::from_secs(1);

type CommitResult = Result<Revision, CommitError>;

/// The handle of the writer task. Dropping it stops the task.
pub(super) struct MysqlWriter {
    queue: mpsc::Sender<WriteRequest>,
    stop: Arc<Notify>,
    task: Mutex<Option<JoinHandle<()>>>,
    connector: Arc<ConnectionFactory>,
}

/// A write that waits for its turn.
struct WriteRequest {
    write: Write,
    /// When the caller stops waiting for its turn.
    deadline: Instant,
    answer: oneshot::Sender<CommitResult>,
}

/// The state of the writer task.
struct WriterTask {
    connector: Arc<ConnectionFactory>,
    publisher: Arc<CommitPublisher>,
    /// A connection with no transaction open.
    connection: Option<Connection>,
    nonces: RandomState,
    groups: u64,
}

/// How one attempt at a group ended.
enum AttemptOutcome {
    Committed(StagedGroup),
    /// The group had no effect.
    Failed(MysqlFailure),
    /// `COMMIT` was sent, and its answer is an error or did not arrive.
    Unanswered(StagedGroup, MysqlFailure),
}

// --- MysqlWriter ---

impl MysqlWriter {
    #[expect(
        clippy::disallowed_methods,
        reason = "the handle is kept, and aborts the task on drop"
    )]
    pub(super) fn start(connector: Arc<ConnectionFactory>, publisher: Arc<CommitPublisher>) -> Self {
        let (queue, requests) = mpsc::channel(QUEUE);
        let stop = Arc::new(Notify::new());
        let task = WriterTask {
            connector: Arc::clone(&connector),
            publisher,
            connection: None,
            nonces: RandomState::new(),
            groups: 0,
        };
        let task = tokio::spawn(run(task, requests, Arc::clone(&stop)));
        Self {
            queue,
            stop,
            task: Mutex::new(Some(task)),
            connector,
        }
    }

    /// Commits a write.
    pub(super) async fn commit(&self, write: Write) -> CommitResult {
        let deadline = Instant::now() + self.connector.options.request_timeout;
        let (answer, answered) = oneshot::channel();
        let request = WriteRequest {
            write,
            deadline,
            answer,
        };
        match timeout_at(deadline, self.queue.send(request)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(StoreError::Closed.into()),
            Err(_) => return Err(timed_out().into()),
        }
        // The task answers every request it takes, unless it panicked in the middle of one.
        answered
            .await
            .unwrap_or(Err(CommitError::Uncertain(StoreError::Closed)))
    }

    /// Finishes the group at hand, refuses the rest, and ends the task.
    pub(super) async fn close(&self) {
        self.stop.notify_one();
        let task = self.task.lock().take();
        if let Some(task) = task {
            // A panic of the task was printed when it happened.
            task.await.ok();
        }
    }
}

impl Drop for MysqlWriter {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().take() {
            task.abort();
        }
    }
}

async fn run(mut task: WriterTask, mut requests: mpsc::Receiver<WriteRequest>, stop: Arc<Notify>) {
    let mut waiting = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = stop.notified() => break,
            taken = requests.recv_many(&mut waiting, MAX_ROWS), if waiting.is_empty() => {
                if taken == 0 {
                    return; // the store was dropped, and no caller waits
                }
            }
            () = std::future::ready(()), if !waiting.is_empty() => {}
            () = sleep(IDLE), if waiting.is_empty() && task.is_silence_limited() => {
                task.rest().await;
                continue;
            }
        }
        let group = next_group(&mut waiting);
        task.serve(group).await;
    }
    requests.close();
    while requests.recv_many(&mut waiting, QUEUE).await > 0 {}
    for request in waiting {
        request.refuse(StoreError::Closed);
    }
}

/// Takes the writes of the next transaction from those that wait: not too many bytes, at least one.
fn next_group(waiting: &mut Vec<WriteRequest>) -> Vec<WriteRequest> {
    let mut bytes = 0;
    let count = waiting
        .iter()
        .take_while(|request| {
            let first = bytes == 0;
            bytes += request.bytes();
            first || bytes <= GROUP_BYTES
        })
        .count();
    waiting.drain(..count).collect()
}

// --- WriteRequest ---

impl WriteRequest {
    fn bytes(&self) -> usize {
        match &self.write.operation {
            Operation::Put { value, .. } => row_bytes(&self.write.key, value),
            Operation::Delete => row_bytes(&self.write.key, &[]),
        }
    }

    /// Reports that the write was not applied.
    fn refuse(self, error: StoreError) {
        self.answer(Err(CommitError::Store(error)));
    }

    fn answer(self, answer: CommitResult) {
        // The caller may have stopped waiting; the write stands or falls all the same.
        self.answer.send(answer).ok();
    }
}

// --- WriterTask ---

impl WriterTask {
    /// Commits a group and reports the result of each write.
    async fn serve(&mut self, mut group: Vec<WriteRequest>) {
        let now = Instant::now();
        group.retain(|request| !request.answer.is_closed());
        for late in group.extract_if(.., |request| request.deadline <= now) {
            late.refuse(timed_out());
        }
        let mut attempts = RetryTimer::until(now + self.connector.options.request_timeout);
        while !group.is_empty() {
            let failure = match self.attempt(&mut group, attempts.deadline()).await {
                AttemptOutcome::Committed(staged) => return self.publish(group, &staged),
                AttemptOutcome::Failed(failure) => failure,
                AttemptOutcome::Unanswered(staged, failure) => {
                    match self.resolve(&staged, &mut attempts).await {
                        Ok(GroupOutcome::Committed) => return self.publish(group, &staged),
                        Ok(GroupOutcome::RolledBack) => failure,
                        Ok(GroupOutcome::Forgotten) => {
                            return answer_uncertain(group, &staged, &failure.into_error());
                        }
                        Err(error) => return answer_uncertain(group, &staged, &error),
                    }
                }
            };
            if let Err(error) = attempts.again(failure).await {
                return group
                    .into_iter()
                    .for_each(|request| request.refuse(error.clone()));
            }
        }
    }

    /// Tries once to commit a group. Writes that are too large for the server are answered and leave it.
    async fn attempt(&mut self, group: &mut Vec<WriteRequest>, deadline: Instant) -> AttemptOutcome {
        let nonce = self.next_nonce();
        let (mut connection, staged) = match timeout_at(deadline, self.stage(group, nonce)).await {
            Ok(Ok(staged)) => staged,
            Ok(Err(failure)) => return AttemptOutcome::Failed(failure),
            // Its connection is dropped, and the server rolls back when it notices.
            Err(_) => return AttemptOutcome::Failed(MysqlFailure::Transient(timed_out())),
        };
        match timeout_at(deadline, connection.plain("COMMIT")).await {
            Ok(Ok(())) => {
                self.connection = Some(connection);
                AttemptOutcome::Committed(staged)
            }
            // The answers need no commit when nothing was changed.
            _ if staged.plan.commits.is_empty() => AttemptOutcome::Committed(staged),
            // Also after an error of the server: some have been seen for transactions that were committed.
            Ok(Err(failure)) => AttemptOutcome::Unanswered(staged, failure),
            Err(_) => AttemptOutcome::Unanswered(staged, MysqlFailure::Transient(timed_out())),
        }
    }

    async fn stage(
        &mut self,
        group: &mut Vec<WriteRequest>,
        nonce: u64,
    ) -> Result<(Connection, StagedGroup), MysqlFailure> {
        let mut connection = self.connect().await?;
        for large in group.extract_if(.., |request| !fits(request.bytes(), connection.max_packet)) {
            let too_large = CommitError::TooLarge {
                key: large.write.key.clone(),
                bytes: large.bytes(),
            };
            large.answer(Err(too_large));
        }
        let staged = stage(&mut connection, group.iter().map(|request| &request.write), nonce).await?;
        Ok((connection, staged))
    }

    /// Determines the outcome of a group whose response was lost.
    async fn resolve(
        &mut self,
        staged: &StagedGroup,
        attempts: &mut RetryTimer,
    ) -> Result<GroupOutcome, StoreError> {
        tracing::warn!("the answer to a commit was lost, will look whether it happened");
        loop {
            match timeout_at(attempts.deadline(), self.look_up(staged)).await {
                Ok(Ok(group_outcome)) => return Ok(group_outcome),
                Ok(Err(failure)) => attempts.again(failure).await?,
                Err(_) => return Err(timed_out()),
            }
        }
    }

    async fn look_up(&mut self, staged: &StagedGroup) -> Result<GroupOutcome, MysqlFailure> {
        let mut connection = self.connect().await?;
        let group_outcome = group_outcome(&mut connection, staged).await?;
        self.connection = Some(connection);
        Ok(group_outcome)
    }

    /// The connection of the group before, or a new one. It is put back when it has no transaction
    /// open: whatever ends early drops it.
    async fn connect(&mut self) -> Result<Connection, MysqlFailure> {
        let mut connection = match self.connection.take().filter(|rested| !rested.is_stale()) {
            Some(connection) => connection,
            None => self.connector.connect(ConnectionRole::Writer).await?,
        };
        connection.limit_silence().await?;
        Ok(connection)
    }

    /// Whether the server would soon close the connection.
    fn is_silence_limited(&self) -> bool {
        self.connection
            .as_ref()
            .is_some_and(Connection::is_silence_limited)
    }

    /// Lets the connection rest until the next group.
    async fn rest(&mut self) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        // Otherwise the next group makes a new one.
        if timeout(REST_LIMIT, connection.allow_silence()).await.is_ok() {
            self.connection = Some(connection);
        }
    }

    /// Publishes to watchers before answering writers: a writer that has its answer finds the event in a watch.
    fn publish(&self, group: Vec<WriteRequest>, staged: &StagedGroup) {
        let commits = staged
            .plan
            .commits
            .iter()
            .map(|commit| commit.logged.clone())
            .collect();
        if self.publisher.publish(commits, staged.now_ms) == PublishResult::Gap {
            self.publisher.poll_now(); // a peer was faster
        }
        for (request, outcome) in group.into_iter().zip(staged.plan.outcomes()) {
            let answer = staged.answer(*outcome);
            request.answer(answer);
        }
    }

    /// A unique ID for a group, among all processes.
    fn next_nonce(&mut self) -> u64 {
        self.groups += 1;
        self.nonces.hash_one(self.groups)
    }
}

/// Answers a group whose outcome is unknown. Conflicts with what was there
/// before it are certain all the same.
fn answer_uncertain(group: Vec<WriteRequest>, staged: &StagedGroup, error: &StoreError) {
    for (request, outcome) in group.into_iter().zip(staged.plan.outcomes()) {
        let certain = match outcome {
            WriteOutcome::Conflict(Some(revision)) => !staged.plan.is_own(*revision),
            // What was there may have been deleted by the group itself.
            WriteOutcome::Conflict(None) | WriteOutcome::Done(_) => false,
        };
        let answer = if certain {
            staged.answer(*outcome)
        } else {
            Err(CommitError::Uncertain(error.clone()))
        };
        request.answer(answer);
    }
}

// --- Staged ---

impl StagedGroup {
    /// The answer to a write, once the group is committed.
    fn answer(&self, outcome: WriteOutcome) -> CommitResult {
        match outcome {
            WriteOutcome::Done(revision) => Ok(revision),
            WriteOutcome::Conflict(None) => Err(CommitError::Conflict(None)),
            WriteOutcome::Conflict(Some(revision)) => {
                let there = self
                    .obstacles
                    .get(&revision)
                    .cloned()
                    .or_else(|| self.plan.own_entry(revision));
                match there {
                    Some(entry) => Err(CommitError::Conflict(Some(entry))),
                    None => Err(CommitError::Store(StoreError::Corrupt(format!(
                        "commit {revision} holds a live value and is not in k3_log"
                    )))),
                }
            }
        }
    }
}
