//! `k3 controller`: controllers and scheduler in a process of their own.

use std::net::IpAddr;

use clap::Args;
use k3_controllers::{Cluster, ServerIdentity};
use kube::Config;
use kubecontroller::manager::{self, Stop};

use super::{
    process::{self, Announce},
    remote::ProcessFlags,
};
use crate::{
    certificates,
    client_factory::ClientFactory,
    controller_manager::{self, ComponentSelection, ControllerManager},
    failure::Failure,
    server::Settings,
};

const EXAMPLES: &str = "\
Examples:
  k3 start --controllers=
  k3 controller --data-dir /var/lib/k3
      a server alone, and beside it a process for the controllers and the scheduler

  k3 controller --kubeconfig admin.kubeconfig --controllers='*,-scheduler' --metrics-address 127.0.0.1:9100
      all controllers but the scheduler, for a server anywhere, with figures for Prometheus

  k3 controller --storage etcd --etcd-servers http://10.0.0.1:2379
      needs no other server: it has one of its own, for itself alone

Any number may run: the one that holds the lease kube-system/kube-controller-manager works, the others wait. When it
dies, another takes over as soon as the lease has run out, after 15 s; when it is stopped, at once.

What needs the keys of the cluster is left to those who have them, which are the controllers of `k3 start` and those with a
server of their own: for another server certificates of requests are not signed, and no tokens are written into secrets.

Exit codes: 0 success, 1 failure, 2 a call that makes no sense.";

/// Run controllers and the scheduler in a process of their own.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ControllerFlags {
    /// Controllers to run, and `scheduler`, a list with commas; '*' is all that are on by themselves, -NAME leaves one out
    #[arg(long, value_name = "LIST", default_value = "*")]
    controllers: String,

    #[command(flatten)]
    leader_election: LeaderElectionFlags,

    #[command(flatten)]
    process_flags: ProcessFlags,
}

/// Who works if there are several, and what is told of it.
#[derive(Debug, Args)]
pub(super) struct LeaderElectionFlags {
    /// Work without asking who leads. Two such processes do everything twice, which is correct but a waste
    #[arg(long)]
    no_leader_elect: bool,

    /// Address at which figures are served as text for Prometheus [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    metrics_address: Option<String>,

    /// Address at which /healthz and /readyz are served [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    health_address: Option<String>,
}

pub(super) fn run(flags: &ControllerFlags) -> Result<(), Failure> {
    let components = controller_manager::parse_controllers(&flags.controllers)?;
    if components.is_empty() {
        return Err(Failure::usage(
            "--controllers names none",
            "'*' is all; `k3 controllers` shows their names",
        ));
    }
    run_components(
        "controller",
        components,
        &flags.leader_election,
        &flags.process_flags,
    )
}

/// Runs what was components in this process: for a server elsewhere, or with one of its own.
pub(super) fn run_components(
    name: &str,
    components: ComponentSelection,
    leader_election: &LeaderElectionFlags,
    process_flags: &ProcessFlags,
) -> Result<(), Failure> {
    process::init(&process_flags.log)?;
    match process_flags.own_server(name)? {
        Some(own) => {
            let settings = Settings {
                components,
                manager_config: leader_election.config(),
                ..own
            };
            process::run(settings, Announce::Nothing)
        }
        None => process::block_on(async {
            let mut signals = process::signals()?;
            let server = process_flags
                .remote
                .config(process_flags.data_dir.clone())
                .await?;
            let stop = Stop::new();
            let running = control(server, components, leader_election, stop.clone());
            process::run_until_signal(stop, running, &mut signals).await
        }),
    }
}

async fn control(
    server: Config,
    components: ComponentSelection,
    leader_election: &LeaderElectionFlags,
    stop: Stop,
) -> Result<(), Failure> {
    let cluster = Cluster {
        authority: authority(&server)?.into(),
        server: identity(&server),
        ..Cluster::default()
    };
    tracing::info!("{components} for {}", server.cluster_url);
    let control = ControllerManager::new(
        &ClientFactory::Remote(Box::new(server)),
        components,
        cluster,
        leader_election.config(),
    )?;
    control.run(stop).await.map_err(|error| {
        Failure::new(
            "the controllers ended",
            "see that the server runs, and start them again",
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

/// What is known of the server here: the name or address at which it is reached.
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

/// The certificate of the server's authority, which pods are told: that of the kubeconfig.
fn authority(server: &Config) -> Result<String, Failure> {
    let advice = "use a kubeconfig with certificate-authority-data, such as the admin.kubeconfig in the data directory";
    let known = server.root_cert.as_deref().unwrap_or_default();
    if known.is_empty() {
        return Err(Failure::new("the kubeconfig names no authority", advice));
    }
    Ok(known.iter().map(|der| certificates::pem(der)).collect())
}
