//! A real etcd: one member, or a cluster of several on one machine.

use std::{
    ffi::OsString,
    net::{Ipv4Addr, TcpStream},
    path::PathBuf,
    thread,
};

use crate::{
    Program, ServiceError,
    port::free_port,
    supervisor::{ServiceDirectory, Supervisor},
};

pub(crate) const PROGRAM: Program = Program {
    name: "etcd",
    package: "etcd-server",
    variable: "K3_TEST_ETCD",
};

/// How often a start is tried again with other ports when another process took ours.
const ATTEMPTS: usize = 5;

/// How to start an etcd.
#[derive(Clone, Debug, Default)]
pub struct EtcdOptions {
    /// More arguments, after ours: `--quota-backend-bytes=...`, `--cert-file=...`. Default: none.
    /// A quieter log level hides the line by which we see that the member is ready.
    pub args: Vec<String>,
    /// Whether clients speak TLS; the files are named in `args`. Default: false.
    pub tls: bool,
    /// The directory under which the member's own directory is made. Default: the system's temporary directory,
    /// which on some machines is in memory: a benchmark names a directory on the disk it measures.
    pub parent: Option<PathBuf>,
}

/// A private etcd member on free ports with its own directory. Dropping it stops it.
pub struct Etcd {
    supervisor: Supervisor,
    ports: Ports,
    scheme: &'static str,
}

/// Several members that form one cluster.
pub struct EtcdCluster {
    members: Vec<Etcd>,
}

#[derive(Clone, Copy)]
struct Ports {
    client: u16,
    peer: u16,
}

// --- Etcd ---

impl Etcd {
    /// Starts a member that is a cluster by itself, and waits until it serves.
    pub fn start() -> Result<Self, ServiceError> {
        Self::start_with(&EtcdOptions::default())
    }

    /// As [`Etcd::start`], with options.
    pub fn start_with(options: &EtcdOptions) -> Result<Self, ServiceError> {
        let mut cluster = EtcdCluster::start_with(1, options)?;
        Ok(cluster.members.pop().expect("the cluster has one member"))
    }

    /// Where clients connect: `http://127.0.0.1:PORT`, or `https://...` with TLS.
    pub fn endpoint(&self) -> String {
        endpoint(self.scheme, self.ports.client)
    }

    /// Ends the process at once (SIGKILL). Its data stay for [`Etcd::restart`].
    pub fn kill(&self) -> Result<(), ServiceError> {
        self.supervisor.kill()
    }

    /// Starts the process again on the same ports and data, after killing it if it runs, and waits until
    /// it serves. In a cluster that needs a majority of running members.
    pub fn restart(&self) -> Result<(), ServiceError> {
        self.supervisor.restart(|log| self.is_ready(log))
    }

    /// Pauses the process with SIGSTOP: connections stay open without responses.
    pub fn pause(&self) -> Result<(), ServiceError> {
        self.supervisor.pause()
    }

    /// Lets a frozen process go on (SIGCONT).
    pub fn resume(&self) -> Result<(), ServiceError> {
        self.supervisor.resume()
    }

    /// The process id, to measure it by; `None` while it is killed.
    pub fn pid(&self) -> Option<u32> {
        self.supervisor.pid()
    }

    /// The line in the member's own log appears once it is published to a cluster with a leader. Asking
    /// `/health` instead would be refused with TLS, answer "false" for as long as an alarm is raised,
    /// and be answered by another process that holds the port.
    fn is_ready(&self, log: &str) -> bool {
        log.contains("ready to serve client requests")
            && TcpStream::connect((Ipv4Addr::LOCALHOST, self.ports.client)).is_ok()
    }
}

// --- EtcdCluster ---

impl EtcdCluster {
    /// Starts `size` members, and waits until all serve.
    pub fn start(size: usize) -> Result<Self, ServiceError> {
        Self::start_with(size, &EtcdOptions::default())
    }

    /// As [`EtcdCluster::start`], with options that hold for each member.
    pub fn start_with(size: usize, options: &EtcdOptions) -> Result<Self, ServiceError> {
        let mut attempt = 1;
        loop {
            match Self::try_start(size, options) {
                Err(error) if error.is_port_taken() && attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    /// The members, in a fixed order.
    pub fn members(&self) -> &[Etcd] {
        &self.members
    }

    /// Where clients connect, for each member.
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(Etcd::endpoint).collect()
    }

    fn try_start(size: usize, options: &EtcdOptions) -> Result<Self, ServiceError> {
        let mut ports = Vec::new();
        for _ in 0..size {
            ports.push(Ports {
                client: free_port()?,
                peer: free_port()?,
            });
        }
        let initial: Vec<_> = ports
            .iter()
            .enumerate()
            .map(|(index, ports)| format!("m{index}={}", endpoint("http", ports.peer)))
            .collect();
        let mut members = Vec::new();
        for (index, ports) in ports.into_iter().enumerate() {
            members.push(prepare(index, ports, &initial.join(","), options)?);
        }
        // All at once: none is ready before a majority runs.
        thread::scope(|scope| {
            let starts: Vec<_> = members
                .iter()
                .map(|member| scope.spawn(|| member.supervisor.start(|log| member.is_ready(log))))
                .collect();
            starts
                .into_iter()
                .try_for_each(|start| start.join().expect("starting a member does not panic"))
        })?;
        Ok(Self { members })
    }
}

fn prepare(index: usize, ports: Ports, initial: &str, options: &EtcdOptions) -> Result<Etcd, ServiceError> {
    let program = PROGRAM.find()?;
    let directory = ServiceDirectory::make("etcd", options.parent.as_deref())?;
    let scheme = if options.tls { "https" } else { "http" };
    let client = endpoint(scheme, ports.client);
    let peer = endpoint("http", ports.peer);
    let mut data = OsString::from("--data-dir=");
    data.push(directory.path().join("data"));
    let mut command = vec![program.into_os_string(), data];
    command.extend(
        [
            format!("--name=m{index}"),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster={initial}"),
        ]
        .map(OsString::from),
    );
    command.extend(options.args.iter().map(OsString::from));
    let supervisor = Supervisor::new("etcd", directory, command)?;
    Ok(Etcd {
        supervisor,
        ports,
        scheme,
    })
}

fn endpoint(scheme: &str, port: u16) -> String {
    format!("{scheme}://127.0.0.1:{port}")
}
