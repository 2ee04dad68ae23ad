//! `k3 log-level`: the log level of a running server.

use clap::Args;

use super::server_flags::{self, ApiClient, ServerFlags};
use crate::{command_error::CommandError, log::LEVEL_PATH};

const EXAMPLES: &str = "\
Examples:
  k3 log-level
      shows the log level of the server

  k3 log-level info,k3_apiserver=debug
      raises the level of one module, until the server stops or the level is changed again

The same without k3: `kubectl get --raw /debug/flags/v`, and a PUT to that path, whose body may also be a klog verbosity
(4 for debug, 8 for trace).

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Show or change the log level of a running server.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct LogLevelFlags {
    /// New level: error, warn, info, debug or trace, with overrides per module [default: only show]
    #[arg(value_name = "LEVELS")]
    levels: Option<String>,

    #[command(flatten)]
    server: ServerFlags,
}

pub(super) fn run(flags: &LogLevelFlags) -> Result<(), CommandError> {
    server_flags::block_on(async {
        let cluster = ApiClient::connect(&flags.server).await?;
        let response = match &flags.levels {
            None => cluster.request_text("GET", LEVEL_PATH, "").await?,
            Some(levels) => cluster.request_text("PUT", LEVEL_PATH, levels).await?,
        };
        print_line!("{}", response.trim_end());
        Ok(())
    })
}
