//! `k3 token revoke`: tokens that are taken back.

use clap::Args;
use k3_apiserver::EphemeralToken;

use super::{Cluster, ServerFlags};
use crate::failure::Failure;

/// Take tokens back: from now on they are good for nothing.
#[derive(Debug, Args)]
pub(super) struct RevokeFlags {
    /// Which ones, as `k3 token list` calls them
    #[arg(value_name = "ID", required = true, value_parser = id)]
    ids: Vec<String>,

    #[command(flatten)]
    server: ServerFlags,
}

pub(super) async fn run(flags: &RevokeFlags) -> Result<(), Failure> {
    let cluster = Cluster::find(&flags.server).await?;
    for id in &flags.ids {
        let path = format!(
            "{}/{}",
            EphemeralToken::secrets_path(),
            EphemeralToken::secret_name(id)
        );
        cluster.ask("DELETE", &path, None).await?;
        println!("revoked {id}");
    }
    Ok(())
}

/// A whole token that was pasted instead is not repeated.
fn id(text: &str) -> Result<String, &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if text.is_empty() || !text.bytes().all(is_plain) {
        return Err("an id has small letters and digits; `k3 token list` shows them");
    }
    Ok(text.to_owned())
}
