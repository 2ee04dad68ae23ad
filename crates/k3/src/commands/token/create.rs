//! `k3 token create`: creates a short-lived token.

use std::time::Duration;

use clap::Args;
use k3_apiserver::EphemeralToken;
use kubecontroller::Clock;

use super::{
    ApiClient, ServerFlags,
    join::{self, JoinLimits},
};
use crate::{command_error::CommandError, duration};

/// Create a token, and print it once.
#[derive(Debug, Args)]
pub(super) struct CreateFlags {
    /// User name of the token
    #[arg(long, value_name = "NAME", value_parser = name, required_unless_present = "join")]
    user: Option<String>,

    /// Create a join token for nodes, and print the command to run on the new machine
    #[arg(long, conflicts_with_all = ["user", "group"])]
    join: bool,

    /// With --join: the only node name that may join
    #[arg(long, value_name = "NAME", requires = "join", value_parser = node_name)]
    node_name: Option<String>,

    /// With --join: maximum number of nodes, up to 1000 [default: unlimited]
    #[arg(long, value_name = "NUMBER", requires = "join", value_parser = clap::value_parser!(u32).range(1..=1000))]
    uses: Option<u32>,

    /// Group of the user; may be repeated or comma-separated
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = name)]
    group: Vec<String>,

    /// Lifetime, at most a year
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_ttl)]
    ttl: Duration,

    #[command(flatten)]
    server: ServerFlags,
}

pub(super) async fn run(flags: &CreateFlags) -> Result<(), CommandError> {
    let Some(user) = &flags.user else {
        let limits = JoinLimits {
            ttl: flags.ttl,
            node_name: flags.node_name.clone(),
            uses: flags.uses,
        };
        return join::run(&flags.server, &limits).await;
    };
    let cluster = ApiClient::connect(&flags.server).await?;
    let (token, text) = EphemeralToken::issue(user, &flags.group, flags.ttl, Clock::system().system_time());
    cluster
        .request("POST", &EphemeralToken::secrets_path(), Some(&token.to_secret()))
        .await?;
    eprintln!(
        "token {} for {} expires at {}",
        token.id, token.user, token.expires
    );
    print_line!("{text}");
    Ok(())
}

fn parse_ttl(text: &str) -> Result<Duration, &'static str> {
    let ttl = duration::parse_whole_seconds(text)?;
    if ttl > Duration::from_hours(365 * 24) {
        return Err("must not exceed a year");
    }
    Ok(ttl)
}

fn node_name(text: &str) -> Result<String, &'static str> {
    let name = text.to_lowercase();
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let ends_well = [bytes.first(), bytes.last()]
            .iter()
            .all(|end| end.is_some_and(|end| is_plain(*end)));
        ends_well && bytes.iter().all(|byte| is_plain(*byte) || *byte == b'-')
    };
    if name.len() > 253 || !name.split('.').all(is_part) {
        return Err("invalid node name: lower case letters, digits, - and . are allowed");
    }
    Ok(name)
}

fn name(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.contains(char::is_control) {
        return Err("invalid name");
    }
    Ok(text.to_owned())
}
