//! `k3 cluster create`: creates the directories and files of a cluster.

use std::path::PathBuf;

use clap::{Args, builder::PossibleValuesParser};
use k3_storage::backend::BACKENDS;

use super::{
    config, count_nodes,
    directory::{ClusterDirectory, ClusterNode, ClusterSpec, NodeRole},
    registry, start,
};
use crate::{
    command_error::CommandError,
    commands::start::RuntimeFlags,
    prose::{and, or},
    random, secret_file,
};

/// Create the directories of a cluster, with a configuration per node. Nothing is started without --start.
#[derive(Debug, Args)]
pub(super) struct CreateFlags {
    /// Directory of the cluster
    #[arg(long, value_name = "DIR", default_value = ".k3")]
    dir: PathBuf,

    /// Number of nodes; the first runs the API server, the controllers and the store
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    nodes: u16,

    /// Port of the first node's web console; that of the second is one more, and so on
    #[arg(long, value_name = "PORT", default_value_t = 8080, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) web_port: u16,

    /// Port of the API server
    #[arg(long, value_name = "PORT", default_value_t = 6443, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) api_port: u16,

    /// Port of the first node's API; that of the second is one more, and so on
    #[arg(long, value_name = "PORT", default_value_t = 10250, value_parser = clap::value_parser!(u16).range(1..))]
    node_port: u16,

    #[arg(long, value_name = "STORE", default_value = "file", help = storage_help(), value_parser = storage_names())]
    storage: String,

    #[arg(long, value_name = "PORT", help = database_port_help(), value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) database_port: Option<u16>,

    #[command(flatten)]
    pub(super) runtime: RuntimeFlags,

    /// Start it, and wait until all nodes are ready
    #[arg(long)]
    start: bool,
}

fn storage_names() -> PossibleValuesParser {
    PossibleValuesParser::new(BACKENDS.iter().map(|backend| backend.name()))
}

fn storage_help() -> String {
    let databases = BACKENDS.iter().filter(|backend| backend.database().is_some());
    format!(
        "Storage backend: {}. {} are started as containers",
        or(BACKENDS.iter().map(|backend| backend.name())),
        and(databases.map(|backend| backend.name()))
    )
}

fn database_port_help() -> String {
    let databases = BACKENDS.iter().filter_map(|backend| backend.database());
    let ports = or(databases.map(|database| database.default_port().to_string()));
    format!("Port of that database on this machine [default: {ports}]")
}

pub(super) async fn run(flags: &CreateFlags) -> Result<(), CommandError> {
    for (flag, first) in [("--web-port", flags.web_port), ("--node-port", flags.node_port)] {
        if first.checked_add(flags.nodes - 1).is_none() {
            return Err(CommandError::usage(
                format!(
                    "{} nodes from {flag} {first} on need ports above 65535",
                    flags.nodes
                ),
                format!("choose a lower port with {flag}"),
            ));
        }
    }
    let id = random::digits::<4>()?;
    let nodes = (0..flags.nodes).map(|offset| ClusterNode {
        name: format!("node-{}-{id}", offset + 1),
        role: if offset == 0 {
            NodeRole::One
        } else {
            NodeRole::Node
        },
        port: flags.node_port + offset,
    });
    let cluster = ClusterSpec {
        id: id.clone(),
        nodes: nodes.collect(),
        storage: flags.storage.clone(),
        runtime: flags.runtime.runtime.clone(),
        runtime_endpoint: flags.runtime.runtime_endpoint.clone(),
    };
    let directory = ClusterDirectory::create(&flags.dir, cluster)?;
    for number in directory.numbers() {
        let text = config::text(&directory, number, flags);
        secret_file::write(&directory.config(number), &text).map_err(|error| {
            let advice = "check the disk, and run `k3 cluster clear` before you try again";
            CommandError::new("cannot write the configuration of a node", advice).caused_by(error)
        })?;
    }
    registry::add(&directory);
    print_line!(
        "created cluster {id} with {} in {}",
        count_nodes(flags.nodes.into()),
        directory.path().display()
    );
    if flags.start {
        return start::run(&directory).await;
    }
    print_line!(
        "start it with: k3 cluster start --dir {}",
        directory.path().display()
    );
    Ok(())
}
