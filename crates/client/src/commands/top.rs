//! `k3 top`: what nodes and pods use.

use clap::{Args, Subcommand, ValueEnum};
use k3_quantity::Quantity;
use serde_json::Value;

use crate::{
    connection::ConnectFlags,
    failed::Failed,
    pick::SelectFlags,
    resource::{escape, with_query},
    session::Session,
    table::Table,
};

const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";

/// Display what nodes or pods use
#[derive(Debug, Args)]
pub struct TopFlags {
    #[command(subcommand)]
    what: Top,
}

#[derive(Debug, Subcommand)]
enum Top {
    /// What nodes use
    #[command(visible_aliases = ["nodes", "no"])]
    Node(TopArgs),
    /// What pods use
    #[command(visible_aliases = ["pods", "po"])]
    Pod {
        #[command(flatten)]
        args: TopArgs,

        /// Pods of all namespaces
        #[arg(short = 'A', long)]
        all_namespaces: bool,

        /// A line for each container
        #[arg(long)]
        containers: bool,
    },
}

#[derive(Debug, Args)]
struct TopArgs {
    /// One of them
    name: Option<String>,

    #[command(flatten)]
    select: SelectFlags,

    /// Order by what is used most
    #[arg(long, value_name = "WHAT")]
    sort_by: Option<By>,

    /// No line of headers
    #[arg(long)]
    no_headers: bool,

    #[command(flatten)]
    connection: ConnectFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    Cpu,
    Memory,
}

/// What somebody uses: thousandths of a core, and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    cpu: i64,
    memory: i64,
}

/// A line.
struct Line {
    names: Vec<String>,
    usage: Usage,
    /// Of what there is.
    limit: Option<Usage>,
}

// --- Usage ---

impl Usage {
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

// --- TopFlags ---

impl TopFlags {
    pub(crate) fn connection(&self) -> &ConnectFlags {
        match &self.what {
            Top::Node(args) | Top::Pod { args, .. } => &args.connection,
        }
    }

    pub(crate) async fn run(&self, session: &Session) -> Result<(), Failed> {
        let done = match &self.what {
            Top::Node(args) => nodes(session, args).await,
            Top::Pod {
                args,
                all_namespaces,
                containers,
            } => pods(session, args, *all_namespaces, *containers).await,
        };
        done.map_err(|failed| {
            // The place where figures are is not there at all.
            let status = failed.status().cloned().unwrap_or_default();
            let is_absent =
                failed.is_not_found() && status["details"]["name"].as_str().unwrap_or_default().is_empty();
            if is_absent || failed.http_code() == Some(503) {
                Failed::new("Metrics API not available")
            } else {
                failed
            }
        })
    }
}

async fn nodes(session: &Session, args: &TopArgs) -> Result<(), Failed> {
    let mut lines = Vec::new();
    for item in fetch(session, &format!("{METRICS}/nodes"), args).await? {
        let name = item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let node = session
            .api
            .find(&format!("/api/v1/nodes/{}", escape(&name)))
            .await?;
        lines.push(Line {
            usage: Usage::read(&item["usage"]),
            limit: node.map(|node| Usage::read(&node["status"]["allocatable"])),
            names: vec![name],
        });
    }
    let header = ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"];
    print(session, args, Table::new(&header), lines)
}

async fn pods(
    session: &Session,
    args: &TopArgs,
    is_everywhere: bool,
    has_containers: bool,
) -> Result<(), Failed> {
    let collection = if is_everywhere {
        format!("{METRICS}/pods")
    } else {
        format!("{METRICS}/namespaces/{}/pods", escape(&session.namespace))
    };
    let mut lines = Vec::new();
    for item in fetch(session, &collection, args).await? {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut names = Vec::new();
        names.extend(is_everywhere.then(|| text(&item["metadata"]["namespace"])));
        names.push(text(&item["metadata"]["name"]));
        let mut total = Usage::default();
        for container in item["containers"].as_array().into_iter().flatten() {
            let usage = Usage::read(&container["usage"]);
            total.add(usage);
            if has_containers {
                let mut names = names.clone();
                names.push(text(&container["name"]));
                lines.push(Line {
                    names,
                    usage,
                    limit: None,
                });
            }
        }
        if !has_containers {
            lines.push(Line {
                names,
                usage: total,
                limit: None,
            });
        }
    }
    let mut header = Vec::new();
    header.extend(is_everywhere.then_some("NAMESPACE"));
    header.push(if has_containers { "POD" } else { "NAME" });
    header.extend(has_containers.then_some("NAME"));
    header.extend(["CPU(cores)", "MEMORY(bytes)"]);
    print(session, args, Table::new(&header), lines)
}

async fn fetch(session: &Session, collection: &str, args: &TopArgs) -> Result<Vec<Value>, Failed> {
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

fn print(session: &Session, args: &TopArgs, mut table: Table, mut lines: Vec<Line>) -> Result<(), Failed> {
    if lines.is_empty() {
        eprintln!("No resources found");
        return Ok(());
    }
    match args.sort_by {
        Some(By::Cpu) => lines.sort_by_key(|line| -line.usage.cpu),
        Some(By::Memory) => lines.sort_by_key(|line| -line.usage.memory),
        None => lines.sort_by(|left, right| left.names.cmp(&right.names)),
    }
    let has_shares = table.header.iter().any(|name| name == "CPU(%)");
    let share = |used: i64, all: Option<i64>| match all {
        Some(all) if all > 0 => format!("{}%", used * 100 / all),
        _ => "<unknown>".to_owned(),
    };
    table.rows = lines
        .into_iter()
        .map(|line| {
            let mut row = line.names;
            row.push(format!("{}m", line.usage.cpu));
            row.extend(has_shares.then(|| share(line.usage.cpu, line.limit.map(|limit| limit.cpu))));
            row.push(format!("{}Mi", line.usage.memory >> 20));
            row.extend(has_shares.then(|| share(line.usage.memory, line.limit.map(|limit| limit.memory))));
            row
        })
        .collect();
    session.show(|screen| table.print(screen, !args.no_headers))
}
