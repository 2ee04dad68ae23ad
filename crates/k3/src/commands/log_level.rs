//! `k3 log-level`: how much a running server says.

use clap::Args;

use super::server_flags::{self, ApiClient, ServerFlags};
use crate::{failure::Failure, log::LEVEL_PATH};

const EXAMPLES: &str = "\
Examples:
  k3 log-level
      tells how much the server says

  k3 log-level info,k3_apiserver=debug
      has one part of it say more, at once and until the server ends or is told otherwise

The same without k3: `kubectl get --raw /debug/flags/v`, and a PUT to that path, whose body may also be a verbosity as
programs of Kubernetes count it (4 for details, 8 for everything).

Exit codes: 0 success, 1 failure, 2 a call that makes no sense.";

/// Tell how much a running server writes to its log, or change it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct LogLevelFlags {
    /// How much: error, warn, info, debug or trace, and more or less for single modules [default: only tell]
    #[arg(value_name = "LEVELS")]
    levels: Option<String>,

    #[command(flatten)]
    server: ServerFlags,
}

pub(super) fn run(flags: &LogLevelFlags) -> Result<(), Failure> {
    server_flags::block_on(async {
        let cluster = ApiClient::connect(&flags.server).await?;
        let told = match &flags.levels {
            None => cluster.request_text("GET", LEVEL_PATH, "").await?,
            Some(levels) => cluster.request_text("PUT", LEVEL_PATH, levels).await?,
        };
        print_line!("{}", told.trim_end());
        Ok(())
    })
}
