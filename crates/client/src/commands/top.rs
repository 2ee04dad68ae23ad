//! `k3 top`: CPU and memory usage from the metrics API.

use clap::{Args, Subcommand, ValueEnum};
use k3_quantity::Quantity;
use serde_json::Value;

use crate::{
    api_resource::{escape, with_query},
    connection::ConnectFlags,
    error::ClientError,
    resource_builder::SelectFlags,
    session::CommandSession,
    table::{HeaderFlags, Table},
};

const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";

/// Display resource (CPU/memory) usage of nodes or pods
#[derive(Debug, Args)]
pub struct TopFlags {
    #[command(subcommand)]
    what: TopCommand,
}

#[derive(Debug, Subcommand)]
enum TopCommand {
    /// Display resource (CPU/memory) usage of nodes
    #[command(visible_aliases = ["nodes", "no"])]
    Node(TopArgs),
    /// Display resource (CPU/memory) usage of pods
    #[command(visible_aliases = ["pods", "po"])]
    Pod {
        #[command(flatten)]
        args: TopArgs,

        /// List pods of all namespaces
        #[arg(short = 'A', long)]
        all_namespaces: bool,

        /// Print usage per container
        #[arg(long)]
        containers: bool,
    },
}

#[derive(Debug, Args)]
struct TopArgs {
    /// Name of a single node or pod
    name: Option<String>,

    #[command(flatten)]
    select: SelectFlags,

    /// Sort by usage, highest first
    #[arg(long, value_name = "FIELD")]
    sort_by: Option<TopSortKey>,

    #[command(flatten)]
    header: HeaderFlags,

    #[command(flatten)]
    connection: ConnectFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TopSortKey {
    Cpu,
    Memory,
}

/// CPU usage in millicores, and memory usage in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct ResourceUsage {
    cpu: i64,
    memory: i64,
}

struct UsageRow {
    names: Vec<String>,
    usage: ResourceUsage,
    /// The allocatable resources of a node.
    /// Of what there is.
    allocatable: Option<ResourceUsage>,
}

// --- ResourceUsage ---

impl ResourceUsage {
    fn read(amounts: &Value) -> Self {
        let quantity = |name: &str| Quantity::from_value(&amounts[name]).ok();
        Self {
            cpu: quantity("cpu").map_or(0, |cpu| cpu.milli_value()),
            memory: quantity("memory").map_or(0, |memory| memory.value()),
        }
    }

    fn add(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.memory += other.memory;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamespaceScope {
    Current,
    All,
}

/// What has a row each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodRows {
    Pods,
    Containers,
}

// --- TopFlags ---

impl TopFlags {
    pub(crate) fn connection(&self) -> &ConnectFlags {
        match &self.what {
            TopCommand::Node(args) | TopCommand::Pod { args, .. } => &args.connection,
        }
    }

    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        let result = match &self.what {
            TopCommand::Node(args) => nodes(session, args).await,
            TopCommand::Pod {
                args,
                all_namespaces,
                containers,
            } => {
                let namespaces = if *all_namespaces {
                    NamespaceScope::All
                } else {
                    NamespaceScope::Current
                };
                let rows = if *containers {
                    PodRows::Containers
                } else {
                    PodRows::Pods
                };
                pods(session, args, namespaces, rows).await
            }
        };
        result.map_err(|failed| {
            // A 404 without a name means that the API itself is missing, not a node or pod.
            let name = failed
                .status()
                .and_then(|status| status["details"]["name"].as_str());
            let is_absent = failed.is_not_found() && name.is_none_or(str::is_empty);
            if is_absent || failed.http_code() == Some(503) {
                ClientError::new("Metrics API not available")
            } else {
                failed
            }
        })
    }
}

async fn nodes(session: &CommandSession, args: &TopArgs) -> Result<(), ClientError> {
    let mut rows = Vec::new();
    for item in fetch(session, &format!("{METRICS}/nodes"), args).await? {
        let name = item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let node = session
            .api
            .find(&format!("/api/v1/nodes/{}", escape(&name)))
            .await?;
        rows.push(UsageRow {
            usage: ResourceUsage::read(&item["usage"]),
            allocatable: node.map(|node| ResourceUsage::read(&node["status"]["allocatable"])),
            names: vec![name],
        });
    }
    let header = ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"];
    print(session, args, Table::new(&header), rows)
}

async fn pods(
    session: &CommandSession,
    args: &TopArgs,
    namespaces: NamespaceScope,
    shown: PodRows,
) -> Result<(), ClientError> {
    let has_namespace = namespaces == NamespaceScope::All;
    let has_containers = shown == PodRows::Containers;
    let collection = match namespaces {
        NamespaceScope::All => format!("{METRICS}/pods"),
        NamespaceScope::Current => format!("{METRICS}/namespaces/{}/pods", escape(&session.namespace)),
    };
    let mut rows = Vec::new();
    for item in fetch(session, &collection, args).await? {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut names = Vec::new();
        names.extend(has_namespace.then(|| text(&item["metadata"]["namespace"])));
        names.push(text(&item["metadata"]["name"]));
        let mut total = ResourceUsage::default();
        for container in item["containers"].as_array().into_iter().flatten() {
            let usage = ResourceUsage::read(&container["usage"]);
            total.add(usage);
            if has_containers {
                let mut names = names.clone();
                names.push(text(&container["name"]));
                rows.push(UsageRow {
                    names,
                    usage,
                    allocatable: None,
                });
            }
        }
        if !has_containers {
            rows.push(UsageRow {
                names,
                usage: total,
                allocatable: None,
            });
        }
    }
    let mut header = Vec::new();
    header.extend(has_namespace.then_some("NAMESPACE"));
    header.push(if has_containers { "POD" } else { "NAME" });
    header.extend(has_containers.then_some("NAME"));
    header.extend(["CPU(cores)", "MEMORY(bytes)"]);
    print(session, args, Table::new(&header), rows)
}

async fn fetch(
    session: &CommandSession,
    collection: &str,
    args: &TopArgs,
) -> Result<Vec<Value>, ClientError> {
    if let Some(name) = &args.name {
        let item = session.api.get(&format!("{collection}/{}", escape(name))).await?;
        return Ok(vec![item]);
    }
    let mut list = session
        .api
        .get(&with_query(collection, &args.select.query()))
        .await?;
    match list["items"].take() {
        Value::Array(items) => Ok(items),
        _ => Ok(Vec::new()),
    }
}

fn print(
    session: &CommandSession,
    args: &TopArgs,
    mut table: Table,
    mut rows: Vec<UsageRow>,
) -> Result<(), ClientError> {
    if rows.is_empty() {
        eprintln!("No resources found");
        return Ok(());
    }
    match args.sort_by {
        Some(TopSortKey::Cpu) => rows.sort_by_key(|row| -row.usage.cpu),
        Some(TopSortKey::Memory) => rows.sort_by_key(|row| -row.usage.memory),
        None => rows.sort_by(|left, right| left.names.cmp(&right.names)),
    }
    let has_percent = table.header.iter().any(|name| name == "CPU(%)");
    let percent = |used: i64, all: Option<i64>| match all {
        Some(all) if all > 0 => format!("{}%", used * 100 / all),
        _ => "<unknown>".to_owned(),
    };
    table.rows = rows
        .into_iter()
        .map(|row| {
            let mut cells = row.names;
            cells.push(format!("{}m", row.usage.cpu));
            cells.extend(has_percent.then(|| percent(row.usage.cpu, row.allocatable.map(|all| all.cpu))));
            cells.push(format!("{}Mi", row.usage.memory >> 20));
            cells.extend(
                has_percent.then(|| percent(row.usage.memory, row.allocatable.map(|all| all.memory))),
            );
            cells
        })
        .collect();
    session.show(|screen| table.print(screen, args.header.header()))
}
