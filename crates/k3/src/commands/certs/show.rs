//! `k3 certs show`: lists certificates and keys with expiry and names.

use clap::Args;
use kubecontroller::Clock;
use serde_json::json;
use time::UtcDateTime;

use super::{super::table::table, DataDirFlags};
use crate::{
    certificates::{CertificateInfo, list_certificates},
    command_error::CommandError,
};

/// Maximum width of the lists of names.
const WIDTH: usize = 98;

/// List certificates and keys with expiry and names.
#[derive(Debug, Args)]
pub(super) struct ShowFlags {
    /// Output format
    #[arg(long, short, value_name = "FORMAT", value_parser = ["text", "json"], default_value = "text")]
    output: String,

    #[command(flatten)]
    directory: DataDirFlags,
}

pub(super) fn run(flags: &ShowFlags) -> Result<(), CommandError> {
    let directory = flags.directory.tls()?;
    if !directory.is_dir() {
        return Err(CommandError::new(
            format!("there are no certificates in {}", directory.display()),
            "name the data directory of a server with --data-dir; its first start creates them",
        ));
    }
    let infos = list_certificates(&directory, &Clock::system()).map_err(|error| {
        CommandError::new("cannot read the certificates", "check the owner of the files").caused_by(error)
    })?;
    if flags.output == "json" {
        let entries: Vec<_> = infos
            .iter()
            .map(|infos| {
                json!({"name": infos.name, "purpose": infos.purpose, "ends": infos.ends.map(date),
                    "daysLeft": infos.days_left, "names": infos.names, "flaw": infos.flaw})
            })
            .collect();
        print_line!("{:#}", json!(entries));
        return Ok(());
    }
    print_text!("{}", text(&infos));
    Ok(())
}

fn text(infos: &[CertificateInfo]) -> String {
    let mut rows = vec![["NAME", "UNTIL", "DAYS", "STATE", "USED FOR"].map(str::to_owned)];
    for infos in infos {
        rows.push([
            infos.name.to_owned(),
            infos.ends.map_or_else(|| "-".to_owned(), date),
            infos
                .days_left
                .map_or_else(|| "-".to_owned(), |days| days.to_string()),
            if infos.flaw.is_some() { "bad" } else { "good" }.to_owned(),
            infos.purpose.to_owned(),
        ]);
    }
    let mut text = table(&rows);
    for infos in infos {
        if let Some(flaw) = &infos.flaw {
            text.push_str(&wrapped(
                &format!("\n{} is bad:", infos.name),
                flaw.split_whitespace(),
            ));
        }
        if !infos.names.is_empty() {
            let names = infos.names.iter().map(String::as_str);
            text.push_str(&wrapped(&format!("\n{} is valid for:", infos.name), names));
        }
    }
    text
}

/// Formats a title and names in lines that fit a terminal.
fn wrapped<'a>(title: &str, names: impl Iterator<Item = &'a str>) -> String {
    let mut lines = vec![String::new()];
    for word in names {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    format!("{title}\n  {}\n", lines.join("\n  "))
}

/// Formats seconds since 1970 as a date.
fn date(seconds: i64) -> String {
    match UtcDateTime::from_unix_timestamp(seconds) {
        Ok(day) => format!("{:04}-{:02}-{:02}", day.year(), u8::from(day.month()), day.day()),
        Err(_) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_with_many_names_fits_a_terminal() {
        let names: Vec<String> = (0..40)
            .map(|number| format!("name-{number}.default.svc.cluster.local"))
            .collect();
        let infos = CertificateInfo {
            name: "serving",
            purpose: "the API server",
            ends: Some(2_000_000_000),
            days_left: Some(364),
            names: names.clone(),
            flaw: None,
        };
        let text = text(&[infos]);
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        assert!(names.iter().all(|name| text.contains(name.as_str())), "{text}");
    }
}
