//! `k3 controllers`: state, queues and errors of the controllers in a server.

use clap::Args;
use serde_json::Value;

use super::{
    server_flags::{self, ApiClient, ServerFlags},
    table::table,
};
use crate::{
    command_error::CommandError,
    controller_manager::{CONTROLLERS_PATH, LEASE_PATH},
};

const EXAMPLES: &str = "\
Examples:
  k3 controllers
      lists the controllers in the server, the leader, queue depths and last errors

  k3 controllers --json | jq '.controllers[] | select(.queue.depth > 100)'
the same as JSON

Among servers that share a store, the leader's controllers run and those of the others are idle. The output is that of
the server in the kubeconfig.

Exit codes: 0 success, 1 failure, 2 usage error.";

/// List the controllers that run: which is leader, queue depths, last errors.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ControllersFlags {
    /// Print the server's report as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerFlags,
}

pub(super) fn run(flags: &ControllersFlags) -> Result<(), CommandError> {
    server_flags::block_on(async {
        let cluster = ApiClient::connect(&flags.server).await?;
        let report = cluster.request("GET", CONTROLLERS_PATH, None).await?;
        if flags.json {
            print_line!("{report:#}");
            return Ok(());
        }
        let lease = if report["elects"] == true {
            cluster.request("GET", LEASE_PATH, None).await?
        } else {
            Value::Null
        };
        print_text!("{}", text(&report, &lease));
        Ok(())
    })
}

fn text(report: &Value, lease: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let leader = match (report["elects"] == true, &lease["spec"]["holderIdentity"]) {
        (false, _) => "leader: this server (its store is not shared)".to_owned(),
        (true, Value::String(holder)) if !holder.is_empty() => {
            let whose = if report["leads"] == true {
                " (this server)"
            } else {
                ""
            };
            format!("leader: {holder}{whose}")
        }
        (true, _) => "leader: none at the moment".to_owned(),
    };
    let mut rows = vec![
        [
            "NAME",
            "STATE",
            "READY",
            "RUNNING",
            "WAITING",
            "RETRIES",
            "LAST ERROR",
        ]
        .map(str::to_owned),
    ];
    for controller in report["controllers"].as_array().into_iter().flatten() {
        let queue = &controller["queue"];
        let number = |key: &str| match &queue[key] {
            Value::Null => "-".to_owned(),
            number => number.to_string(),
        };
        let error = &controller["errors"][0];
        let error = if error.is_null() {
            String::new()
        } else {
            format!(
                "{} {}: {}",
                word(&error["at"]),
                word(&error["key"]),
                word(&error["message"])
            )
        };
        rows.push([
            word(&controller["name"]),
            word(&controller["state"]),
            number("depth"),
            number("running"),
            number("waiting"),
            number("retries"),
            error,
        ]);
    }
    format!("{leader}\n{}", table(&rows))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shows_leader_queues_and_last_error() {
        let report = json!({"elects": true, "leads": false, "controllers": [
            {"name": "job", "state": "idle", "queue": {"depth": 1, "running": 2, "waiting": 3, "retries": 4},
             "errors": [{"at": "2026-01-01T00:00:00Z", "key": "a/b", "message": "no", "failures": 2}]},
            {"name": "scheduler", "state": "running"},
        ]});
        let lease = json!({"spec": {"holderIdentity": "host_1"}});
        let expected = "\
leader: host_1
NAME        STATE     READY   RUNNING   WAITING   RETRIES   LAST ERROR
job         idle      1       2         3         4         2026-01-01T00:00:00Z a/b: no
scheduler   running   -       -         -         -
";
        assert_eq!(text(&report, &lease), expected);
        let alone = text(&json!({"elects": false, "controllers": []}), &Value::Null);
        assert!(
            alone.starts_with("leader: this server (its store is not shared)\n"),
            "{alone}"
        );
    }
}
