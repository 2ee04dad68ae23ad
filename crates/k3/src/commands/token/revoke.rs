//! `k3 token revoke`: revokes tokens.

use clap::Args;
use k3_apiserver::EphemeralToken;

use super::{ApiClient, ServerFlags, join};
use crate::{command_error::CommandError, join::JoinToken};

/// Revoke tokens.
#[derive(Debug, Args)]
pub(super) struct RevokeFlags {
    /// Ids, as in `k3 token list`
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    #[command(flatten)]
    server: ServerFlags,
}

pub(super) async fn run(flags: &RevokeFlags) -> Result<(), CommandError> {
    let ids: Vec<&str> = flags.ids.iter().map(|text| id(text)).collect::<Result<_, _>>()?;
    let cluster = ApiClient::connect(&flags.server).await?;
    for id in ids {
        let path = match id.len() {
            JoinToken::ID_LETTERS => format!("{}/{}", join::SECRETS, join::secret_name(id)),
            _ => format!(
                "{}/{}",
                EphemeralToken::secrets_path(),
                EphemeralToken::secret_name(id)
            ),
        };
        cluster.request("DELETE", &path, None).await?;
        print_line!("revoked {id}");
    }
    Ok(())
}

/// Returns the id of a token or id argument. An invalid argument is not repeated in the error: it may be a secret.
fn id(text: &str) -> Result<&str, CommandError> {
    let id = text.strip_prefix("k3t-").unwrap_or(text);
    let id = id.split_once("::").map_or(id, |(_, token)| token);
    let id = id.split_once('.').map_or(id, |(id, _)| id);
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if id.is_empty() || !id.bytes().all(is_plain) {
        return Err(CommandError::usage(
            "invalid token id",
            "an id consists of lower case letters and digits; `k3 token list` shows them",
        ));
    }
    Ok(id)
}
