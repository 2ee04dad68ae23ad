//! A line to the server that can be cut at the worst moment.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinSet,
};

/// What happens to those who connect, or who commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// Everything passes.
    Good,
    /// The next `COMMIT` reaches the server, its answer does not return; then the line is good.
    LoseAnswer,
    /// The next `COMMIT` does not reach the server; then the line is good.
    LoseCommit,
    /// As `LoseAnswer`, and then all connections fail.
    LoseAnswerAndBreak,
    /// As `LoseCommit`, and then all connections fail.
    LoseCommitAndBreak,
    /// The next `COMMIT` does not reach the server, which still sees an open connection; then the line
    /// is good, for others.
    HoldCommit,
    /// No process gets through, and open connections are silent.
    Broken,
}

pub(crate) struct MysqlProxy {
    pub(crate) port: u16,
    state: Arc<ProxyState>,
    _tasks: JoinSet<()>,
}

struct ProxyState {
    line: Mutex<ConnectionState>,
    target: u16,
    commits: AtomicUsize,
}

impl MysqlProxy {
    pub(crate) async fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(ProxyState {
            line: Mutex::new(ConnectionState::Good),
            target,
            commits: AtomicUsize::new(0),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&state)));
        Self {
            port,
            state,
            _tasks: tasks,
        }
    }

    pub(crate) fn set(&self, line: ConnectionState) {
        *self.state.line.lock() = line;
    }

    pub(crate) fn line(&self) -> ConnectionState {
        *self.state.line.lock()
    }

    /// How many `COMMIT` statements passed.
    pub(crate) fn commits(&self) -> usize {
        self.state.commits.load(Ordering::SeqCst)
    }
}

async fn accept(listener: TcpListener, state: Arc<ProxyState>) {
    let mut tasks = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        if *state.line.lock() == ConnectionState::Broken {
            continue; // and hang up
        }
        tasks.spawn(carry(client, Arc::clone(&state)));
    }
}

async fn carry(client: TcpStream, state: Arc<ProxyState>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", state.target)).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // The first direction to end closes both.
    tokio::select! {
        () = requests(from_client, to_server, &state) => {}
        () = answers(from_server, to_client, &state) => {}
    }
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: &ProxyState) {
    let mut packet = Vec::new();
    while let Some(()) = read_packet(&mut from, &mut packet).await {
        let mut line = *state.line.lock();
        if is_commit(&packet) {
            state.commits.fetch_add(1, Ordering::SeqCst);
            let next = match line {
                ConnectionState::LoseAnswer | ConnectionState::LoseCommit | ConnectionState::HoldCommit => {
                    ConnectionState::Good
                }
                ConnectionState::LoseAnswerAndBreak | ConnectionState::LoseCommitAndBreak => {
                    ConnectionState::Broken
                }
                ConnectionState::Good | ConnectionState::Broken => line,
            };
            *state.line.lock() = next;
            match line {
                ConnectionState::LoseAnswer | ConnectionState::LoseAnswerAndBreak => {
                    // The server has it in its socket; its end of the line is closed behind it.
                    to.write_all(&packet).await.ok();
                    to.shutdown().await.ok();
                    return;
                }
                ConnectionState::LoseCommit | ConnectionState::LoseCommitAndBreak => return,
                ConnectionState::HoldCommit => std::future::pending().await,
                ConnectionState::Good | ConnectionState::Broken => line = next,
            }
        }
        if line == ConnectionState::Broken {
            silence(state).await;
        }
        if to.write_all(&packet).await.is_err() {
            return;
        }
    }
}

async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: &ProxyState) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else {
            return;
        };
        silence(state).await;
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// Waits while the line is broken.
async fn silence(state: &ProxyState) {
    while *state.line.lock() == ConnectionState::Broken {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Reads one packet with its header: three bytes of length, one of sequence.
async fn read_packet(from: &mut OwnedReadHalf, packet: &mut Vec<u8>) -> Option<()> {
    packet.resize(4, 0);
    from.read_exact(packet).await.ok()?;
    let length = usize::from(packet[0]) | usize::from(packet[1]) << 8 | usize::from(packet[2]) << 16;
    packet.resize(4 + length, 0);
    from.read_exact(&mut packet[4..]).await.ok()?;
    Some(())
}

fn is_commit(packet: &[u8]) -> bool {
    const COM_QUERY: u8 = 3;
    packet.len() == 11 && packet[4] == COM_QUERY && packet[5..].eq_ignore_ascii_case(b"COMMIT")
}
