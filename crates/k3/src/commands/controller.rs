//! `k3 controller`: controllers and scheduler in a process of their own.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use clap::Args;
use k3_controllers::Cluster;
use kube::Config;
use kubecontroller::manager::{self, Stop};

use super::server_flags::ServerFlags;
use crate::{
    control::{self, Chosen, Control},
    door::Door,
    failure::Failure,
    limits,
    log::{self, LogFlags},
    signals::Signals,
};

const EXAMPLES: &str = "\
Examples:
  k3 start --controllers=
  k3 controller --data-dir /var/lib/k3
      a server alone, and beside it a process for the controllers and the scheduler

  k3 controller --kubeconfig admin.kubeconfig --controllers='*,-scheduler' --metrics-address 127.0.0.1:9100
      all controllers but the scheduler, for a server anywhere, with figures for Prometheus

Any number may run: the one that holds the lease kube-system/kube-controller-manager works, the others wait. When it
dies, another takes over as soon as the lease has run out, after 15 s; when it is stopped, at once.

What needs the keys of the cluster is left to the controllers of `k3 start`: certificates of requests are not signed here,
and no tokens are written into secrets.

Exit codes: 0 success, 1 failure, 2 a call that makes no sense.";

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(5);

/// Run controllers and the scheduler in a process of their own.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ControllerFlags {
    /// Controllers to run, and `scheduler`, a list with commas; '*' is all that are on by themselves, -NAME leaves one out
    #[arg(long, value_name = "LIST", default_value = "*")]
    controllers: String,

    /// Work without asking who leads. Two such processes do everything twice, which is correct but a waste
    #[arg(long)]
    no_leader_elect: bool,

    /// Address at which figures are served as text for Prometheus [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    metrics_address: Option<String>,

    /// Address at which /healthz and /readyz are served [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    health_address: Option<String>,

    #[command(flatten)]
    server: ServerFlags,

    #[command(flatten)]
    log: LogFlags,
}

pub(super) fn run(flags: &ControllerFlags) -> Result<(), Failure> {
    log::begin(&flags.log)?;
    let chosen = control::listed(&flags.controllers)?;
    if chosen.is_nothing() {
        return Err(Failure::usage(
            "--controllers names none",
            "'*' is all; `k3 controllers` shows their names",
        ));
    }
    limits::raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(
                "cannot start threads",
                "see `ulimit -u` and the memory of the machine",
            )
            .because(error)
        })?;
    runtime.block_on(control(flags, chosen))
}

async fn control(flags: &ControllerFlags, chosen: Chosen) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(|error| {
        Failure::new("cannot listen for signals", "this should not happen; try again").because(error)
    })?;
    let server = flags.server.config().await?;
    let cluster = Cluster {
        authority: authority(&server)?.into(),
        ..Cluster::default()
    };
    let mut config = manager::Config::default();
    config.leader.elect = !flags.no_leader_elect;
    config.metrics_address.clone_from(&flags.metrics_address);
    config.health_address.clone_from(&flags.health_address);
    tracing::info!("controllers for {}", server.cluster_url);
    let control = Control::new(&Door::Outside(Box::new(server)), chosen, cluster, config)?;
    let stop = Stop::new();
    let mut running = std::pin::pin!(control.run(stop.clone()));
    let ended = tokio::select! {
        ended = &mut running => ended,
        name = signals.next() => {
            tracing::info!("{name}: stopping; the same again stops at once");
            stop.stop(GRACE);
            tokio::select! {
                ended = &mut running => ended,
                name = signals.next() => {
                    let advice = "what was under way is seen again at the next start";
                    return Err(Failure::new(format!("{name}: stopped at once"), advice));
                }
            }
        }
    };
    ended.map_err(|error| {
        Failure::new(
            "the controllers ended",
            "see that the server runs, and start them again",
        )
        .because(error)
    })
}

/// The certificate of the server's authority, which pods are told: that of the kubeconfig.
fn authority(server: &Config) -> Result<String, Failure> {
    let advice =
        "use a kubeconfig with certificate-authority-data, such as the admin.kubeconfig in the data folder";
    let certificates = server.root_cert.as_deref().unwrap_or_default();
    if certificates.is_empty() {
        return Err(Failure::new("the kubeconfig names no authority", advice));
    }
    Ok(certificates.iter().map(|der| pem(der)).collect())
}

/// A certificate as text.
fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let body: Vec<_> = lines.collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        body.join("\n")
    )
}
