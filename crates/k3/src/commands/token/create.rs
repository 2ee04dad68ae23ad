//! `k3 token create`: a token for somebody, for a while.

use std::time::Duration;

use clap::Args;
use k3_apiserver::EphemeralToken;
use k3_storage::{Clock, SystemClock};

use super::{Cluster, ServerFlags, join};
use crate::{duration, failure::Failure};

/// Make a token, and print it: this one time, and nowhere else.
#[derive(Debug, Args)]
pub(super) struct CreateFlags {
    /// Whom the token makes of its bearer
    #[arg(long, value_name = "NAME", value_parser = name, required_unless_present = "join")]
    user: Option<String>,

    /// Make a token with which a machine joins the cluster as a node, and print the command to run there
    #[arg(long, conflicts_with_all = ["user", "group"])]
    join: bool,

    /// A group that they are in; may be repeated, or a list with commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = name)]
    group: Vec<String>,

    /// How long it is good for, a year at most
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = life)]
    ttl: Duration,

    #[command(flatten)]
    server: ServerFlags,
}

pub(super) async fn run(flags: &CreateFlags) -> Result<(), Failure> {
    let Some(user) = &flags.user else {
        return join::run(&flags.server, flags.ttl).await;
    };
    let cluster = Cluster::find(&flags.server).await?;
    let (token, text) = EphemeralToken::issue(user, &flags.group, flags.ttl, SystemClock.now());
    cluster
        .ask("POST", &EphemeralToken::secrets_path(), Some(&token.to_secret()))
        .await?;
    eprintln!(
        "token {} for {} is good until {}",
        token.id, token.user, token.expires
    );
    print_line!("{text}");
    Ok(())
}

fn life(text: &str) -> Result<Duration, &'static str> {
    let life = duration::parse(text)?;
    if life > Duration::from_hours(365 * 24) {
        return Err("longer than a year: that is not for a while");
    }
    Ok(life)
}

fn name(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.contains(char::is_control) {
        return Err("not a name");
    }
    Ok(text.to_owned())
}
