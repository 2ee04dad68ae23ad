//! `k3 token list`: the tokens that are good for something.

use clap::Args;
use k3_apiserver::EphemeralToken;
use serde_json::Value;

use super::{Cluster, ServerFlags};
use crate::{commands::table::table, failure::Failure};

/// List the tokens there are, by the id that revokes them. The tokens themselves are kept nowhere.
#[derive(Debug, Args)]
pub(super) struct ListFlags {
    #[command(flatten)]
    server: ServerFlags,
}

pub(super) async fn run(flags: &ListFlags) -> Result<(), Failure> {
    let cluster = Cluster::find(&flags.server).await?;
    let path = format!(
        "{}?fieldSelector={}",
        EphemeralToken::secrets_path(),
        EphemeralToken::selector().replace('=', "%3D").replace('/', "%2F")
    );
    let list = cluster.ask("GET", &path, None).await?;
    let secrets = list.get("items").and_then(Value::as_array);
    let mut rows = vec![["ID", "USER", "GROUPS", "EXPIRES"].map(str::to_owned)];
    for secret in secrets.into_iter().flatten() {
        match EphemeralToken::read(secret) {
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
    print!("{}", table(&rows));
    Ok(())
}
