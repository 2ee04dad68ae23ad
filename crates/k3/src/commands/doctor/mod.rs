//! `k3 doctor`: checks whether a server can run here, and what to do if not.
//!
//! It changes nothing, except for a temporary file that measures the disk, and does not disturb a running server. Each check
//! prints one line, with advice if it is not ok.

mod certificates;
mod check;
mod data_dir;
mod machine;
mod ports;
mod runtime;
mod server;
mod store;

use clap::Args;
use serde_json::json;

use self::{
    check::{CheckStatus, DoctorCheck},
    server::ServerState,
};
use super::{server_flags, start::RuntimeFlags, stores::StoreFlags};
use crate::command_error::CommandError;

const EXAMPLES: &str = "\
Examples:
  k3 doctor
      checks data directory, certificates, ports, container runtime, clock, disk and store

  k3 doctor --data-dir /srv/k3 --storage etcd --etcd-servers http://10.0.0.1:2379 -o json
      the same for the flags of a `k3 start`, as JSON

Exit codes: 0 no check failed, 1 a check failed, 2 usage error.";

/// Check whether a server can run here, or the health of a running one.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DoctorFlags {
    #[command(flatten)]
    store: StoreFlags,

    /// Port of the API server
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    secure_port: u16,

    /// Port of the node's API
    #[arg(long, value_name = "PORT", default_value_t = 10250)]
    node_port: u16,

    /// The server runs no node: skip the checks of its port and of the container runtime
    #[arg(long)]
    no_node: bool,

    #[command(flatten)]
    runtime: RuntimeFlags,

    /// Output format
    #[arg(long, short, value_name = "FORMAT", value_parser = ["text", "json"], default_value = "text")]
    output: String,
}

/// Runs the command.
pub(super) fn run(flags: &DoctorFlags) -> Result<(), CommandError> {
    server_flags::block_on(async {
        let checks = all(flags).await?;
        if flags.output == "json" {
            let results: Vec<_> = checks.iter().map(DoctorCheck::json).collect();
            print_line!(
                "{:#}",
                json!({"checks": results, "verdict": check::worst(&checks).name()})
            );
        } else {
            for check in &checks {
                print_text!("{check}");
            }
        }
        let failed = checks
            .iter()
            .filter(|check| check.status == CheckStatus::Fail)
            .count();
        match failed {
            0 => Ok(()),
            count => Err(CommandError::new(
                format!("{count} of {} checks failed", checks.len()),
                "follow the advice below each of them, and run this again",
            )),
        }
    })
}

async fn all(flags: &DoctorFlags) -> Result<Vec<DoctorCheck>, CommandError> {
    let data_dir = flags.store.data_dir()?;
    let running = ServerState::probe(&data_dir).await;
    let mut checks = data_dir::checks(&data_dir);
    checks.extend(certificates::checks(&data_dir));
    checks.push(store::check(&flags.store, &running).await);
    checks.push(running.check());
    checks.push(ports::check(
        "port of the API",
        flags.secure_port,
        "--secure-port",
        &running,
    ));
    if !flags.no_node {
        checks.push(ports::check(
            "port of the node",
            flags.node_port,
            "--node-port",
            &running,
        ));
        checks.push(runtime::check(&flags.runtime.wanted()?).await);
    }
    checks.push(machine::clock(&running));
    checks.push(machine::open_files());
    Ok(checks)
}
