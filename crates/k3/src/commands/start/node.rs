//! The node agent in the server's process.

use std::{net::IpAddr, path::Path, time::Duration};

use k3_node::agent::{Agent, Config, default_node_name};
use kubecontroller::manager::Stop;
use tokio::time::sleep;

use super::flags::NodeFlags;
use crate::{door::Door, failure::Failure};

/// How long an agent that ended waits before it begins again.
const PAUSE: Duration = Duration::from_secs(10);

/// Where the server is, for nodes and their pods.
pub(super) struct Api<'a> {
    /// An address of this machine that pods can reach.
    pub(super) address: IpAddr,
    pub(super) port: u16,
    /// The certificate of its authority, in PEM.
    pub(super) authority: &'a str,
}

/// Runs a node until it is told to stop, and does not end before that. One that cannot run says why, again and again, and all
/// else goes on.
pub(super) fn run(
    flags: &NodeFlags,
    door: &Door<'_>,
    data_dir: &Path,
    api: &Api<'_>,
    stop: Stop,
) -> Result<impl Future<Output = ()> + use<>, Failure> {
    let agent = if flags.no_node {
        None
    } else {
        let name = flags.node_name.clone().unwrap_or_else(default_node_name);
        let config = Config {
            runtime: flags.runtime.clone(),
            runtime_endpoint: flags.runtime_endpoint.clone(),
            port: flags.node_port,
            api_address: Some((api.address.to_string(), api.port)),
            authority: api.authority.to_owned(),
            static_pods: flags.pod_manifest_path.clone(),
            start_limit: flags.container_start_limit,
            stop_limit: flags.container_stop_limit,
            log_dir: data_dir.join("node/logs"),
            ..Config::new(&name, data_dir.join("node"))
        };
        let client = door.node(&config.node_name)?;
        Some(Agent::new(config, client))
    };
    Ok(async move {
        while let Some(agent) = &agent {
            let Err(error) = agent.run(stop.clone()).await else {
                break;
            };
            tracing::error!(%error, "the node in this process ended; it begins again in {} s", PAUSE.as_secs());
            tokio::select! {
                () = sleep(PAUSE) => {}
                () = stop.stopped() => break,
            }
        }
        stop.stopped().await;
    })
}
