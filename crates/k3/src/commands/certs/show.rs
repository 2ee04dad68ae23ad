//! `k3 certs show`: what there is, until when, for whom.

use clap::Args;
use k3_storage::SystemClock;
use serde_json::json;
use time::UtcDateTime;

use super::{super::table::table, FolderFlags};
use crate::{
    certificates::{Held, survey},
    failure::Failure,
};

/// Show what certificates and keys there are, until when, and for which names.
#[derive(Debug, Args)]
pub(super) struct ShowFlags {
    /// How it is told
    #[arg(long, short, value_name = "FORMAT", value_parser = ["text", "json"], default_value = "text")]
    output: String,

    #[command(flatten)]
    folder: FolderFlags,
}

pub(super) fn run(flags: &ShowFlags) -> Result<(), Failure> {
    let folder = flags.folder.tls()?;
    if !folder.is_dir() {
        return Err(Failure::new(
            format!("there are no certificates in {}", folder.display()),
            "name the data folder of a server with --data-dir; its first start makes them",
        ));
    }
    let held = survey(&folder, &SystemClock).map_err(|error| {
        Failure::new("cannot read the certificates", "see whose the files are").because(error)
    })?;
    if flags.output == "json" {
        let told: Vec<_> = held
            .iter()
            .map(|held| {
                json!({"name": held.name, "purpose": held.purpose, "ends": held.ends.map(date),
                    "daysLeft": held.days_left, "names": held.names, "flaw": held.flaw})
            })
            .collect();
        println!("{:#}", json!(told));
        return Ok(());
    }
    print!("{}", text(&held));
    Ok(())
}

fn text(held: &[Held]) -> String {
    let mut rows = vec![["NAME", "UNTIL", "DAYS", "STATE", "FOR", "WHAT"].map(str::to_owned)];
    for held in held {
        rows.push([
            held.name.to_owned(),
            held.ends.map_or_else(|| "-".to_owned(), date),
            held.days_left
                .map_or_else(|| "-".to_owned(), |days| days.to_string()),
            held.flaw.clone().unwrap_or_else(|| "good".to_owned()),
            held.names.join(","),
            held.purpose.to_owned(),
        ]);
    }
    table(&rows)
}

/// The day of a moment, in seconds since 1970.
fn date(seconds: i64) -> String {
    match UtcDateTime::from_unix_timestamp(seconds) {
        Ok(day) => format!("{:04}-{:02}-{:02}", day.year(), u8::from(day.month()), day.day()),
        Err(_) => "-".to_owned(),
    }
}
