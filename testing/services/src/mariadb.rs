//! A real MariaDB server.

use std::{
    ffi::OsString,
    fs,
    io::Read,
    net::{Ipv4Addr, TcpStream},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    Program, ServiceError,
    port::{free_port, random},
    supervisor::{ServiceDirectory, Supervisor},
};

pub(crate) const PROGRAM: Program = Program {
    name: "mariadbd",
    package: "mariadb-server",
    variable: "K3_TEST_MYSQL",
};
const INSTALLER: Program = Program {
    name: "mariadb-install-db",
    ..PROGRAM
};
pub(crate) const CLIENT: Program = Program {
    name: "mariadb",
    package: "mariadb-client",
    ..PROGRAM
};

const USER: &str = "k3";

/// How often a start is tried again with another port when another process took ours.
const ATTEMPTS: usize = 5;

/// Makes the data directory at the first start, then becomes the server. `$1` data, `$2` installer,
/// `$3` user; the rest is the server's command. A server that starts deletes the temporary tables it finds
/// in its directory for those, which by default is everybody's: each gets a directory of its own.
const START: &str = r#"
data=$1 installer=$2 user=$3
shift 3
export TMPDIR="$data.tmp"
mkdir -p "$TMPDIR"
if [ ! -e "$data/k3-installed" ]; then
    rm -rf "$data"
    "$installer" --no-defaults --datadir="$data" --user="$user" --skip-test-db \
        --auth-root-authentication-method=normal || exit 1
    touch "$data/k3-installed"
fi
exec "$@"
"#;

/// How to start a MariaDB.
#[derive(Clone, Debug, Default)]
pub struct MariaDbOptions {
    /// More arguments, after ours: `--max-connections=20`. Default: none.
    pub args: Vec<String>,
    /// The directory under which the server's own directory is made. Default: the system's temporary directory,
    /// which on some machines is in memory: a benchmark names a directory on the disk it measures.
    pub parent: Option<PathBuf>,
}

/// A private MariaDB server on a free port with its own directory. Dropping it stops it.
pub struct MariaDb {
    supervisor: Supervisor,
    port: u16,
    /// Random, so that a successful login proves that this server, and no other process, listens on the port.
    password: String,
    client: PathBuf,
}

// --- MariaDb ---

impl MariaDb {
    /// Starts a server with fresh data, and waits until one can log in.
    pub fn start() -> Result<Self, ServiceError> {
        Self::start_with(&MariaDbOptions::default())
    }

    /// As [`MariaDb::start`], with options.
    pub fn start_with(options: &MariaDbOptions) -> Result<Self, ServiceError> {
        let mut attempt = 1;
        loop {
            match Self::try_start(options) {
                Err(error) if error.is_port_taken() && attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    /// Where clients connect, with a user that may do everything: `mysql://user:password@127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("mysql://{USER}:{}@127.0.0.1:{}", self.password, self.port)
    }

    /// Ends the process at once (SIGKILL). Its data stay for [`MariaDb::restart`].
    pub fn kill(&self) -> Result<(), ServiceError> {
        self.supervisor.kill()
    }

    /// Starts the process again on the same port and data, after killing it if it runs, and waits until
    /// one can log in.
    pub fn restart(&self) -> Result<(), ServiceError> {
        self.supervisor.restart(|_| self.is_ready())
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

    fn try_start(options: &MariaDbOptions) -> Result<Self, ServiceError> {
        let client = CLIENT.find()?;
        let directory = ServiceDirectory::make("mariadb", options.parent.as_deref())?;
        let port = free_port()?;
        let password = format!("{:016x}", random());
        let command = command(directory.path(), port, &password, options)?;
        let supervisor = Supervisor::new("mariadb", directory, command)?;
        let server = Self {
            supervisor,
            port,
            password,
            client,
        };
        server.supervisor.start(|_| server.is_ready())?;
        Ok(server)
    }

    fn is_ready(&self) -> bool {
        // Check the greeting first: it needs no process, and usually the server is not ready yet.
        greets(self.port) && self.logs_in()
    }

    fn logs_in(&self) -> bool {
        Command::new(&self.client)
            .args([
                "--no-defaults",
                "--protocol=tcp",
                "--host=127.0.0.1",
                "--connect-timeout=5",
            ])
            .args([format!("--port={}", self.port), format!("--user={USER}")])
            .args(["--execute=SELECT 1"])
            .env("MYSQL_PWD", &self.password)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }
}

fn command(
    directory: &Path,
    port: u16,
    password: &str,
    options: &MariaDbOptions,
) -> Result<Vec<OsString>, ServiceError> {
    let data = directory.join("data");
    let init = directory.join("init.sql");
    fs::write(&init, init_sql(password)).map_err(ServiceError::io("write the users of the server"))?;
    let user = if is_root()? {
        "root".into()
    } else {
        std::env::var("USER").unwrap_or_default()
    };
    let mut init_file = OsString::from("--init-file=");
    init_file.push(&init);
    let mut data_dir = OsString::from("--datadir=");
    data_dir.push(&data);

    let mut command: Vec<OsString> = ["sh", "-c", START, "k3-mariadb"].map(OsString::from).into();
    command.extend([
        data.into_os_string(),
        INSTALLER.find()?.into_os_string(),
        OsString::from(&user),
    ]);
    command.extend([
        PROGRAM.find()?.into_os_string(),
        "--no-defaults".into(),
        data_dir,
        init_file,
    ]);
    command.extend(
        [
            format!("--user={user}"),
            format!("--port={port}"),
            "--bind-address=127.0.0.1".into(),
            // Relative to the data directory: an absolute path may exceed the 107 bytes a socket may have.
            "--socket=mariadb.sock".into(),
            "--pid-file=mariadb.pid".into(),
            "--skip-name-resolve".into(),
        ]
        .map(OsString::from),
    );
    command.extend(options.args.iter().map(OsString::from));
    Ok(command)
}

/// Executed by the server at every start, before it accepts connections.
fn init_sql(password: &str) -> String {
    ["%", "localhost"]
        .map(|host| {
            format!(
                "CREATE USER IF NOT EXISTS '{USER}'@'{host}' IDENTIFIED BY '{password}';\n\
                 GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'{host}' WITH GRANT OPTION;\n"
            )
        })
        .concat()
}

/// Whether a MySQL server greets on the port: a packet whose first byte is the protocol version, 10. (A
/// server that is full sends an error packet instead.)
fn greets(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return false;
    };
    let mut head = [0; 5];
    stream.set_read_timeout(Some(Duration::from_secs(5))).is_ok()
        && stream.read_exact(&mut head).is_ok()
        && head[4] == 10
}

fn is_root() -> Result<bool, ServiceError> {
    let me = fs::metadata("/proc/self").map_err(ServiceError::io("see who I am"))?;
    Ok(me.uid() == 0)
}
