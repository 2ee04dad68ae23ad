//! `k3 token list`: lists valid tokens.

use clap::Args;
use k3_apiserver::EphemeralToken;
use serde_json::Value;

use super::{
    ApiClient, ServerFlags,
    join::{self, JoinTokenSummary},
};
use crate::{command_error::CommandError, commands::table::table};

/// List tokens, including join tokens, with their ids
#[derive(Debug, Args)]
pub(super) struct ListFlags {
    #[command(flatten)]
    server: ServerFlags,
}

pub(super) async fn run(flags: &ListFlags) -> Result<(), CommandError> {
    let cluster = ApiClient::connect(&flags.server).await?;
    let mut rows = vec![["ID", "FOR", "GROUPS", "EXPIRES"].map(str::to_owned)];
    let path = EphemeralToken::secrets_path();
    for secret in secrets(&cluster, &path, &EphemeralToken::selector()).await? {
        match EphemeralToken::read(&secret) {
            Ok(token) => rows.push([
                token.id,
                token.user,
                token.groups.join(","),
                token.expires.to_string(),
            ]),
            Err(error) => {
                let name = secret.pointer("/metadata/name").and_then(Value::as_str);
                eprintln!("warning: secret {}: {error}", name.unwrap_or_default());
            }
        }
    }
    let of_nodes = format!("type={}", join::SECRET_TYPE);
    for secret in secrets(&cluster, join::SECRETS, &of_nodes).await? {
        if let Some(token) = JoinTokenSummary::read(&secret) {
            let expires = token.expires.unwrap_or_else(|| "never".to_owned());
            rows.push([token.id, token.purpose, token.groups, expires]);
        }
    }
    print_text!("{}", table(&rows));
    Ok(())
}

/// Lists the secrets under a path with a field selector.
async fn secrets(cluster: &ApiClient, path: &str, fields: &str) -> Result<Vec<Value>, CommandError> {
    let fields = fields.replace('=', "%3D").replace('/', "%2F");
    let mut list = cluster
        .request("GET", &format!("{path}?fieldSelector={fields}"), None)
        .await?;
    Ok(match list.get_mut("items").map(Value::take) {
        Some(Value::Array(secrets)) => secrets,
        _ => Vec::new(),
    })
}
