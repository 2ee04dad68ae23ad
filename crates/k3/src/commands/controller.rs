//! `k3 controller`: controllers and scheduler in a separate process.

use std::net::IpAddr;

use clap::Args;
use k3_controllers::{ClusterConfig, ServerIdentity};
use kube::Config;
use kubecontroller::manager::{self, Stop};

use super::{
    process::{self, KubeconfigNotice},
    remote::ProcessFlags,
};
use crate::{
    certificates,
    client_factory::ClientFactory,
    command_error::CommandError,
    controller_manager::{self, ComponentSelection, ControllerManager},
    server::ControlPlaneSettings,
};

const EXAMPLES: &str = "\
Examples:
  k3 start --controllers=
  k3 controller --data-dir /var/lib/k3
      an API server, and a separate process for the controllers and the scheduler

  k3 controller --kubeconfig admin.kubeconfig --controllers='*,-scheduler' --metrics-address 127.0.0.1:9100
      all controllers except the scheduler, for a remote server, with metrics for Prometheus

  k3 controller --storage etcd --etcd-servers http://10.0.0.1:2379
      needs no other server: it runs a private API server

Any number may run: the holder of the lease kube-system/kube-controller-manager works, the others wait. If it crashes,
another takes over when the lease expires, after 15 s; if it is stopped, at once.

Signing needs the keys of the cluster, which only `k3 start` and processes with a private API server have: with
--server or --kubeconfig, no certificate signing requests are signed and no tokens are written into secrets.

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Run controllers and the scheduler in a separate process.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ControllerFlags {
    /// Controllers to run, and `scheduler`, comma-separated; '*' is all that are on by default, -NAME excludes one
    #[arg(long, value_name = "LIST", default_value = "*")]
    controllers: String,

    #[command(flatten)]
    leader_election: LeaderElectionFlags,

    #[command(flatten)]
    process_flags: ProcessFlags,
}

/// Leader election, metrics and health endpoints.
#[derive(Debug, Args)]
pub(super) struct LeaderElectionFlags {
    /// Run without leader election. Two such processes do all work twice, which is correct but wasteful
    #[arg(long)]
    no_leader_elect: bool,

    /// Address that serves Prometheus metrics [default: none]
    #[arg(long, value_name = "ADDRESS")]
    metrics_address: Option<String>,

    /// Address that serves /healthz and /readyz [default: none]
    #[arg(long, value_name = "ADDRESS")]
    health_address: Option<String>,
}

pub(super) fn run(flags: &ControllerFlags) -> Result<(), CommandError> {
    let components = controller_manager::parse_controllers(&flags.controllers)?;
    if components.is_empty() {
        return Err(CommandError::usage(
            "--controllers selects no controller",
            "use '*' for all; `k3 controllers` lists the names",
        ));
    }
    run_components(
        "controller",
        components,
        &flags.leader_election,
        &flags.process_flags,
    )
}

/// Runs components in this process: for a remote server, or with a private API server.
pub(super) fn run_components(
    name: &str,
    components: ComponentSelection,
    leader_election: &LeaderElectionFlags,
    process_flags: &ProcessFlags,
) -> Result<(), CommandError> {
    process::init(&process_flags.log)?;
    match process_flags.own_server(name)? {
        Some(own) => {
            let settings = ControlPlaneSettings {
                components,
                manager_config: leader_election.config(),
                ..own
            };
            process::run(settings, KubeconfigNotice::Nothing)
        }
        None => process::block_on(async {
            let mut signals = process::signals()?;
            let server = process_flags
                .remote
                .config(process_flags.data_dir.clone())
                .await?;
            let stop = Stop::new();
            let running = Box::pin(control(server, components, leader_election, stop.clone()));
            process::run_until_signal(stop, running, &mut signals).await
        }),
    }
}

async fn control(
    server: Config,
    components: ComponentSelection,
    leader_election: &LeaderElectionFlags,
    stop: Stop,
) -> Result<(), CommandError> {
    let cluster = ClusterConfig {
        authority: authority(&server)?.into(),
        server: identity(&server),
        ..ClusterConfig::default()
    };
    tracing::info!("{components} for {}", server.cluster_url);
    let control = ControllerManager::new(
        &ClientFactory::Remote(Box::new(server)),
        components,
        cluster,
        leader_election.config(),
    )?;
    control.run(stop).await.map_err(|error| {
        CommandError::new(
            "controllers failed",
            "check that the API server runs, and start them again",
        )
        .caused_by(error)
    })
}

// --- LeaderElectionFlags ---

impl LeaderElectionFlags {
    fn config(&self) -> manager::Config {
        let mut config = manager::Config::default();
        config.leader.elect = !self.no_leader_elect;
        config.metrics_address.clone_from(&self.metrics_address);
        config.health_address.clone_from(&self.health_address);
        config
    }
}

/// The identity of a remote server: only its name or address is known.
fn identity(server: &Config) -> ServerIdentity {
    let host = server.cluster_url.host().unwrap_or_default();
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        // Nodes may run on the same machine.
        Ok(address) => ServerIdentity {
            advertise: Some(address).filter(|address| !address.is_loopback()),
            ..ServerIdentity::default()
        },
        Err(_) => ServerIdentity {
            hosts: vec![host.to_owned()],
            ..ServerIdentity::default()
        },
    }
}

/// The certificate authority for pods: that of the kubeconfig.
fn authority(server: &Config) -> Result<String, CommandError> {
    let advice = "use a kubeconfig with certificate-authority-data, such as the admin.kubeconfig in the data directory";
    let known = server.root_cert.as_deref().unwrap_or_default();
    if known.is_empty() {
        return Err(CommandError::new(
            "the kubeconfig has no certificate authority",
            advice,
        ));
    }
    Ok(known.iter().map(|der| certificates::pem(der)).collect())
}
