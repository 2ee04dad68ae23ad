//! `k3 version`: prints the versions of this program and of the server.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::server_flags::{self, ApiClient, ServerFlags};
use crate::command_error::CommandError;

/// Timeout of the request.
const TIMEOUT: Duration = Duration::from_secs(3);

const EXAMPLES: &str = "\
Examples:
  k3 version
      the version of this program, and of the server in the kubeconfig if it answers

  k3 version --client -o json
      only the version of this program, as JSON

Exit codes: 0 success, even if no server answers; 1 failure; 2 usage error.";

/// Print the version of this program, and that of the server if it can be reached.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct VersionFlags {
    /// Only the version of this program
    #[arg(long)]
    client: bool,

    /// Output format
    #[arg(long, short, value_name = "FORMAT", value_parser = ["text", "json"], default_value = "text")]
    output: String,

    #[command(flatten)]
    server: ServerFlags,
}

pub(super) fn run(flags: &VersionFlags) -> Result<(), CommandError> {
    server_flags::block_on(async {
        let server = if flags.client {
            None
        } else {
            // An unreachable server is not an error: the local version is printed anyway.
            tokio::time::timeout(TIMEOUT, of_server(&flags.server))
                .await
                .ok()
                .flatten()
        };
        let client = k3_apiserver::version();
        if flags.output == "json" {
            let mut versions = json!({"k3Version": env!("CARGO_PKG_VERSION"), "clientVersion": client});
            if let Some(server) = server {
                versions["serverVersion"] = server;
            }
            print_line!("{versions:#}");
            return Ok(());
        }
        print_line!("k3 {}", env!("CARGO_PKG_VERSION"));
        print_line!("Client Version: {}", name(&client));
        if let Some(server) = server {
            print_line!("Server Version: {}", name(&server));
        }
        Ok(())
    })
}

async fn of_server(flags: &ServerFlags) -> Option<Value> {
    let cluster = ApiClient::connect(flags).await.ok()?;
    cluster.request("GET", "/version", None).await.ok()
}

fn name(version: &Value) -> &str {
    version["gitVersion"].as_str().unwrap_or("unknown")
}
