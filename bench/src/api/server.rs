//! The k3 under load: a process of its own, as a user starts it.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use super::client::{ApiRequest, Endpoint};
use crate::{BenchError, choices::Backend, directories::own_directory, flags::ApiOptions, memory};

/// How long a server may take to be ready, and to stop.
const PATIENCE: Duration = Duration::from_mins(1);

/// What to start.
#[derive(Clone, Debug)]
pub(crate) struct ServerOptions {
    pub(crate) binary: PathBuf,
    pub(crate) storage: Backend,
    /// Further flags: what runs beside the API server.
    pub(crate) parts: Vec<String>,
}

/// A server that is ready. Dropping it kills it.
pub(crate) struct Server {
    child: Child,
    pub(crate) endpoint: Endpoint,
    /// From the start of the process to the first 200 of `/readyz`.
    pub(crate) took: Duration,
    /// Held open, so that the server can go on printing.
    _stdout: BufReader<ChildStdout>,
}

// --- ServerOptions ---

impl ServerOptions {
    /// An API server alone, as the options want it.
    pub(crate) fn alone(options: &ApiOptions) -> Result<Self, BenchError> {
        Self::with(options, ["--controllers=".to_owned()])
    }

    /// A server with further flags, and without a node.
    pub(crate) fn with(
        options: &ApiOptions,
        parts: impl IntoIterator<Item = String>,
    ) -> Result<Self, BenchError> {
        Self::with_node(options, parts.into_iter().chain(["--no-node".to_owned()]))
    }

    /// A server with further flags, which say what its node is.
    pub(crate) fn with_node(
        options: &ApiOptions,
        parts: impl IntoIterator<Item = String>,
    ) -> Result<Self, BenchError> {
        let binary = match &options.binary {
            Some(binary) => binary.clone(),
            None => own_directory()?.join("k3"),
        };
        Ok(Self {
            binary,
            storage: options.storage,
            parts: parts.into_iter().collect(),
        })
    }

    /// Starts a server with its data in `directory`, and waits until it is ready.
    pub(crate) async fn start(&self, directory: &Path) -> Result<Server, BenchError> {
        fs::create_dir_all(directory)?;
        let log = directory.join("log");
        let mut command = Command::new(&self.binary);
        command
            .args(["start", "--secure-port=0"])
            .args(&self.parts)
            .arg(format!("--storage={}", self.storage.name()))
            .arg("--data-dir")
            .arg(directory.join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::options().create(true).append(true).open(&log)?);
        let start = Instant::now();
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.binary.display()))?;
        let mut stdout = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let mut guard = ServerGuard(Some(child));
        let said = tokio::task::block_in_place(|| announcement(&mut stdout))?;
        if !said {
            let log = fs::read_to_string(&log)?;
            return Err(format!("k3 ended before it was ready:\n{log}").into());
        }
        let endpoint = Endpoint::read(&directory.join("data/admin.kubeconfig"))?;
        ready(&endpoint, start).await?;
        Ok(Server {
            child: guard.0.take().expect("no other code takes it"),
            endpoint,
            took: start.elapsed(),
            _stdout: stdout,
        })
    }
}

/// Reads until the server prints where its kubeconfig is; false if it ends before.
fn announcement(stdout: &mut impl BufRead) -> Result<bool, BenchError> {
    let mut line = String::new();
    while stdout.read_line(&mut line)? > 0 {
        if line.starts_with("export KUBECONFIG=") {
            return Ok(true);
        }
        line.clear();
    }
    Ok(false)
}

async fn ready(endpoint: &Endpoint, start: Instant) -> Result<(), BenchError> {
    while start.elapsed() < PATIENCE {
        if let Ok(mut connection) = endpoint.connect().await
            && connection.call(ApiRequest::get("/readyz")).await?.status == 200
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err("/readyz does not answer 200".into())
}

/// Kills a process that was not handed over.
struct ServerGuard(Option<Child>);

impl Drop for ServerGuard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            end(child);
        }
    }
}

/// Kills a process. One that has ended already is fine too.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

// --- Server ---

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Bytes of resident memory.
    pub(crate) fn resident(&self) -> Result<u64, BenchError> {
        memory::resident(&self.pid().to_string())
    }

    /// Ends it as a user would, and waits until it has ended.
    pub(crate) async fn stop(mut self) -> Result<(), BenchError> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > PATIENCE {
                return Err("k3 does not end on SIGTERM".into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_announcement_of_the_server() {
        let mut up: &[u8] = b"hello\nexport KUBECONFIG=/a\n";
        assert!(announcement(&mut up).unwrap());
        let mut ended: &[u8] = b"hello\n";
        assert!(!announcement(&mut ended).unwrap());
    }
}
