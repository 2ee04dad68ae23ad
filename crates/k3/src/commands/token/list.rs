//! `k3 token list`: the tokens that are good for something.

use std::fmt::Write;

use clap::Args;
use k3_apiserver::EphemeralToken;
use serde_json::Value;

use super::{Cluster, ServerFlags};
use crate::failure::Failure;

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

/// Rows with their cells under each other.
fn table(rows: &[[String; 4]]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths = [width(0), width(1), width(2)];
    let mut text = String::new();
    for [id, user, groups, expires] in rows {
        let [first, second, third] = widths;
        // Writing to a text does not fail.
        let _ = writeln!(text, "{id:first$}   {user:second$}   {groups:third$}   {expires}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_under_each_other() {
        let rows = [["ID", "USER", "GROUPS", "E"], ["a", "alice", "", "x"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "ID   USER    GROUPS   E\na    alice            x\n");
    }
}
