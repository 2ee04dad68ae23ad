//! The command line.

use std::{fmt, ops::RangeInclusive, path::PathBuf};

use crate::choices::{Backend, BenchEffort, Holder, NodePart, RuntimeName};

pub(crate) const HELP: &str = "\
Usage: k3-bench storage|api|command|hostile|informer|node|queue|scheduler|workload|scale [FLAGS]

storage measures the stores, beside the disk's own limits, and compares with what is asked of them.

  --backend LIST      which stores, of memory,file,etcd,mysql; all by default

api starts k3, drives it over HTTPS, and sets what each operation costs beside upstream's figure.

  --binary FILE       the k3 to measure; by default the one beside this program
  --storage NAME      where it keeps its objects: file (the default) or memory
  --connections N     how many clients at once, 1 to 256; default 16
  --against FILE      results of another run, as a table in Markdown: the server runs all controllers then, and the benchmark
                      fails where an operation costs more than that table asks

command runs commands of k3 as a user does: test-env, get of 5,000 pods, migrate of 50,000 objects into an etcd and a MySQL,
which it starts; and looks how large the program is. It takes --binary.

hostile starts k3, sends it one by one an object for every list and map of every kind with 10,000 entries, and patches
of 3 MiB of each type, and measures what each costs; then attacks it with idle watches, slow, long and deep bodies and
requests that are taken back, and measures what ordinary clients feel of it. It fails if a limit is not met. With --quick
it sends some kinds only. It takes --binary and --storage.

informer starts k3 with pods, and measures how fast and in how much memory informers hold them, beside kube's reflector.
It takes --binary, --storage and --connections.

scheduler measures how many pods the scheduler places in a second, without a server.

workload starts k3 with controllers and the scheduler, and measures how fast and at what cost Deployments become pods on
nodes, are updated and deleted, and namespaces are deleted; then, what controllers and scheduler weigh with 10,000
pods beyond the API server. It takes --binary and --storage.

scale starts k3 with 5,000 simulated nodes, lets Deployments make 150,000 pods on them, and measures what clients wait for
single objects while 20 pods die in a second, and the memory of it all. It needs 24 GiB, and takes --binary and --storage.

node starts real container runtimes and k3 with a node on them, and measures what k3 adds to what the runtime itself needs:
to start a pod, to start 100 at once, at rest with 50 pods, and whether pods notice that it is killed. It needs root, and
takes --binary and --storage.

  --runtime LIST      which runtimes, of docker,podman,containerd; docker and containerd by default
  --part LIST         which measurements, of start,rate,idle,crash; all by default

queue measures how many keys go through a work queue, and through a controller that does nothing.

All take

  --quick             a fraction of the time and of the objects: rough results
  --dir DIRECTORY        where data is written, on the disk to measure; by default beside the program
  --json FILE         where the results go; bench/results/<benchmark>.json by default
  --help              this text";

/// How many connections a load may have.
const CONNECTIONS: RangeInclusive<usize> = 1..=256;

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Api(ApiOptions),
    Commands(ApiOptions),
    Hostile(ApiOptions),
    Informer(ApiOptions),
    Node(NodeOptions),
    Scheduler(ApiOptions),
    Workload(ApiOptions),
    Scale(ApiOptions),
    Queue(QueueOptions),
    Storage(StorageOptions),
    /// What the benchmark asks of itself, as a process of its own: the memory of one backend.
    Weigh(WeighOptions),
    /// The same: one client that holds all pods.
    Sync(SyncOptions),
}

/// What to measure of the API server, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiOptions {
    pub(crate) effort: BenchEffort,
    /// `memory` or `file`: what needs no service.
    pub(crate) storage: Backend,
    pub(crate) connections: usize,
    /// The table of another run to compare with.
    pub(crate) against: Option<PathBuf>,
    /// The one beside this program if `None`.
    pub(crate) binary: Option<PathBuf>,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
}

/// What to measure of the node agent, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeOptions {
    pub(crate) api: ApiOptions,
    pub(crate) runtimes: Vec<RuntimeName>,
    pub(crate) parts: Vec<NodePart>,
}

/// What to measure of the stores, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorageOptions {
    pub(crate) effort: BenchEffort,
    pub(crate) backends: Vec<Backend>,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
}

/// How to measure queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueOptions {
    pub(crate) effort: BenchEffort,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
}

/// A store to fill, to see how much memory that takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WeighOptions {
    pub(crate) backend: Backend,
    pub(crate) dir: PathBuf,
    pub(crate) objects: usize,
}

/// A client that holds all pods of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyncOptions {
    pub(crate) holder: Holder,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) pods: usize,
}

/// What is wrong with the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UsageError(String);

/// What all benchmarks take.
struct CommonFlags {
    effort: BenchEffort,
    dir: Option<PathBuf>,
    json: Option<PathBuf>,
}

/// Whose flag it is.
enum FlagOwner {
    Own,
    Nobodys,
}

/// Reads the command line, without the program's name.
pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, UsageError> {
    let mut args = args.into_iter();
    match args.next().as_deref() {
        Some("api") => parse_api(args, Command::Api),
        Some("command") => parse_api(args, Command::Commands),
        Some("hostile") => parse_api(args, Command::Hostile),
        Some("informer") => parse_api(args, Command::Informer),
        Some("node") => parse_node(args),
        Some("scheduler") => parse_api(args, Command::Scheduler),
        Some("workload") => parse_api(args, Command::Workload),
        Some("scale") => parse_api(args, Command::Scale),
        Some("queue") => parse_queue(args),
        Some("sync") => parse_sync(&args.collect::<Vec<_>>()),
        Some("storage") => parse_storage(args),
        Some("weigh") => parse_weigh(&args.collect::<Vec<_>>()),
        Some("--help" | "-h") => Ok(Command::Help),
        Some(other) => Err(UsageError(format!("there is no benchmark `{other}`"))),
        None => Err(UsageError("which benchmark?".to_owned())),
    }
}

/// Reads flags: those that all take, and those that `own` knows. `None` if help is asked for.
fn parse_flags(
    mut args: impl Iterator<Item = String>,
    mut own: impl FnMut(&str, &mut dyn FnMut() -> Result<String, UsageError>) -> Result<FlagOwner, UsageError>,
) -> Result<Option<CommonFlags>, UsageError> {
    let mut common = CommonFlags {
        effort: BenchEffort::Full,
        dir: None,
        json: None,
    };
    while let Some(flag) = args.next() {
        let mut value = || {
            args.next()
                .ok_or_else(|| UsageError(format!("{flag} needs a value")))
        };
        match flag.as_str() {
            "--quick" => common.effort = BenchEffort::Quick,
            "--dir" => common.dir = Some(value()?.into()),
            "--json" => common.json = Some(value()?.into()),
            "--help" | "-h" => return Ok(None),
            other => match own(other, &mut value)? {
                FlagOwner::Own => {}
                FlagOwner::Nobodys => return Err(UsageError(format!("there is no flag `{other}`"))),
            },
        }
    }
    Ok(Some(common))
}

fn parse_api(
    args: impl Iterator<Item = String>,
    command: fn(ApiOptions) -> Command,
) -> Result<Command, UsageError> {
    let mut storage = Backend::File;
    let mut connections = 16;
    let mut against = None;
    let mut binary = None;
    let common = parse_flags(args, |flag, value| {
        match flag {
            "--storage" => storage = parse_storage_of_server(&value()?)?,
            "--connections" => connections = parse_connections(&value()?)?,
            "--against" => against = Some(value()?.into()),
            "--binary" => binary = Some(value()?.into()),
            _ => return Ok(FlagOwner::Nobodys),
        }
        Ok(FlagOwner::Own)
    })?;
    let Some(CommonFlags { effort, dir, json }) = common else {
        return Ok(Command::Help);
    };
    let compares = against.is_some();
    let command = command(ApiOptions {
        effort,
        storage,
        connections,
        against,
        binary,
        dir,
        json,
    });
    if compares && !matches!(command, Command::Api(_)) {
        return Err(UsageError("--against is for api".to_owned()));
    }
    Ok(command)
}

fn parse_node(mut args: impl Iterator<Item = String>) -> Result<Command, UsageError> {
    let mut runtimes = vec![RuntimeName::Docker, RuntimeName::Containerd];
    let mut parts = NodePart::ALL.to_vec();
    let mut rest = Vec::new();
    while let Some(flag) = args.next() {
        let mut list = || {
            args.next()
                .ok_or_else(|| UsageError(format!("{flag} needs a value")))
        };
        match flag.as_str() {
            "--runtime" => runtimes = list()?.split(',').map(parse_runtime).collect::<Result<_, _>>()?,
            "--part" => parts = list()?.split(',').map(parse_part).collect::<Result<_, _>>()?,
            _ => rest.push(flag),
        }
    }
    let node = match parse_api(rest.into_iter(), Command::Api)? {
        Command::Api(api) => Command::Node(NodeOptions { api, runtimes, parts }),
        other => other,
    };
    Ok(node)
}

fn parse_storage_of_server(name: &str) -> Result<Backend, UsageError> {
    match parse_backend(name)? {
        backend @ (Backend::Memory | Backend::File) => Ok(backend),
        Backend::Etcd | Backend::Mysql => {
            Err(UsageError(format!("--storage is memory or file, not `{name}`")))
        }
    }
}

fn parse_connections(number: &str) -> Result<usize, UsageError> {
    let parsed = number.parse().ok().filter(|count| CONNECTIONS.contains(count));
    parsed.ok_or_else(|| UsageError(format!("--connections is a number from 1 to 256, not `{number}`")))
}

fn parse_storage(args: impl Iterator<Item = String>) -> Result<Command, UsageError> {
    let mut backends = Backend::ALL.to_vec();
    let common = parse_flags(args, |flag, value| {
        if flag != "--backend" {
            return Ok(FlagOwner::Nobodys);
        }
        backends = value()?.split(',').map(parse_backend).collect::<Result<_, _>>()?;
        Ok(FlagOwner::Own)
    })?;
    let Some(CommonFlags { effort, dir, json }) = common else {
        return Ok(Command::Help);
    };
    Ok(Command::Storage(StorageOptions {
        effort,
        backends,
        dir,
        json,
    }))
}

fn parse_queue(args: impl Iterator<Item = String>) -> Result<Command, UsageError> {
    let common = parse_flags(args, |_, _| Ok(FlagOwner::Nobodys))?;
    let Some(CommonFlags { effort, dir, json }) = common else {
        return Ok(Command::Help);
    };
    Ok(Command::Queue(QueueOptions { effort, dir, json }))
}

fn parse_backend(name: &str) -> Result<Backend, UsageError> {
    let found = Backend::ALL.into_iter().find(|backend| backend.name() == name);
    found.ok_or_else(|| UsageError(format!("there is no backend `{name}`")))
}

fn parse_runtime(name: &str) -> Result<RuntimeName, UsageError> {
    let found = RuntimeName::ALL
        .into_iter()
        .find(|runtime| runtime.name() == name);
    found.ok_or_else(|| UsageError(format!("there is no runtime `{name}`")))
}

fn parse_part(name: &str) -> Result<NodePart, UsageError> {
    let found = NodePart::ALL.into_iter().find(|part| part.name() == name);
    found.ok_or_else(|| UsageError(format!("nothing called `{name}` is measured of nodes")))
}

fn parse_weigh(args: &[String]) -> Result<Command, UsageError> {
    let [backend, dir, objects] = args else {
        return Err(UsageError(
            "weigh takes a backend, a directory and a number".to_owned(),
        ));
    };
    Ok(Command::Weigh(WeighOptions {
        backend: parse_backend(backend)?,
        dir: dir.into(),
        objects: objects
            .parse()
            .map_err(|error| UsageError(format!("{objects}: {error}")))?,
    }))
}

fn parse_sync(args: &[String]) -> Result<Command, UsageError> {
    let [holder, kubeconfig, pods] = args else {
        return Err(UsageError(
            "sync takes a holder, a kubeconfig and a number".to_owned(),
        ));
    };
    let found = Holder::ALL.into_iter().find(|known| known.name() == holder);
    Ok(Command::Sync(SyncOptions {
        holder: found.ok_or_else(|| UsageError(format!("nothing called `{holder}` holds objects")))?,
        kubeconfig: kubeconfig.into(),
        pods: pods
            .parse()
            .map_err(|error| UsageError(format!("{pods}: {error}")))?,
    }))
}

// --- UsageError ---

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, UsageError> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_say_what_to_measure() {
        let options = StorageOptions {
            effort: BenchEffort::Quick,
            backends: vec![Backend::File, Backend::Memory],
            dir: Some("there".into()),
            json: Some("out.json".into()),
        };
        let line = "storage --quick --backend file,memory --dir there --json out.json";
        assert_eq!(parsed(line), Ok(Command::Storage(options)));
        assert_eq!(parsed("storage --quick --help"), Ok(Command::Help));
    }

    #[test]
    fn flags_say_how_to_drive_the_server() {
        let options = ApiOptions {
            effort: BenchEffort::Full,
            storage: Backend::Memory,
            connections: 256,
            against: None,
            binary: Some("k3".into()),
            dir: None,
            json: None,
        };
        let line = "api --storage memory --connections 256 --binary k3";
        assert_eq!(parsed(line), Ok(Command::Api(options.clone())));
        let hostile = line.replace("api", "hostile");
        assert_eq!(parsed(&hostile), Ok(Command::Hostile(options.clone())));
        let informer = line.replace("api", "informer");
        assert_eq!(parsed(&informer), Ok(Command::Informer(options)));
    }

    #[test]
    fn flags_say_on_which_runtimes_pods_run() {
        let Ok(Command::Node(options)) = parsed("node --runtime podman --quick --part rate,idle") else {
            panic!("it is not understood");
        };
        assert_eq!(options.runtimes, [RuntimeName::Podman]);
        assert_eq!(options.parts, [NodePart::Rate, NodePart::Idle]);
        assert_eq!(options.api.effort, BenchEffort::Quick);
        assert_eq!(parsed("node --help"), Ok(Command::Help));
    }

    #[test]
    fn queues_need_few_flags() {
        let options = QueueOptions {
            effort: BenchEffort::Quick,
            dir: None,
            json: Some("out.json".into()),
        };
        assert_eq!(
            parsed("queue --quick --json out.json"),
            Ok(Command::Queue(options))
        );
    }

    #[test]
    fn names_the_wrong_argument() {
        for (line, named) in [
            ("", "which benchmark"),
            ("network", "`network`"),
            ("storage --fast", "`--fast`"),
            ("queue --backend file", "`--backend`"),
            ("storage --dir", "--dir needs a value"),
            ("storage --backend file,tape", "`tape`"),
            ("api --storage etcd", "`etcd`"),
            ("workload --against a.md", "--against"),
            ("api --connections 0", "`0`"),
            ("api --connections 257", "`257`"),
            ("node --runtime rkt", "`rkt`"),
            ("node --part", "--part needs a value"),
            ("node --part swap", "`swap`"),
            ("sync basket k3.kubeconfig 9", "`basket`"),
        ] {
            let error = parsed(line).expect_err(line);
            assert!(error.0.contains(named), "{error}");
        }
    }
}
