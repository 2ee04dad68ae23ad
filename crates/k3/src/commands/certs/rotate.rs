//! `k3 certs rotate`: replaces certificates and keys while servers and clients keep running.

use clap::Args;
use kubecontroller::Clock;

use super::DataDirFlags;
use crate::{
    certificates::{self, CertificateError, RotationTarget},
    command_error::CommandError,
};

const ALL: [RotationTarget; 4] = [
    RotationTarget::Ca,
    RotationTarget::Serving,
    RotationTarget::Client,
    RotationTarget::ServiceAccount,
];

/// Replace certificates and keys without a restart or interruption.
#[derive(Debug, Args)]
pub(super) struct RotateFlags {
    /// What to replace [default: all]
    #[arg(value_enum, value_name = "PART", conflicts_with = "finish")]
    parts: Vec<RotationTarget>,

    /// Trust only the new authority and key: certificates and tokens of the old ones become invalid
    #[arg(long)]
    finish: bool,

    #[command(flatten)]
    directory: DataDirFlags,
}

pub(super) fn run(flags: &RotateFlags) -> Result<(), CommandError> {
    let directory = flags.directory.tls()?;
    let parts = if flags.parts.is_empty() {
        &ALL[..]
    } else {
        &flags.parts
    };
    let replaced = if flags.finish {
        certificates::finish(&directory, &Clock::system())
    } else {
        certificates::rotate(&directory, parts, &Clock::system())
    };
    replaced.map_err(unreplaced)?;
    print_line!("replaced in {}", directory.display());
    eprintln!("a running server uses the new files and rewrites its admin.kubeconfig within seconds");
    if !flags.finish && parts.contains(&RotationTarget::Ca) {
        eprintln!(
            "next: give the new admin.kubeconfig to those who use the API from outside, renew the kubeconfigs of others, and when\n\
             all have it and remote nodes had a minute to update: k3 certs rotate --finish"
        );
    } else if !flags.finish && parts.contains(&RotationTarget::ServiceAccount) {
        eprintln!("next: when all tokens are renewed, after about an hour: k3 certs rotate --finish");
    }
    Ok(())
}

fn unreplaced(error: CertificateError) -> CommandError {
    let advice = match &error {
        CertificateError::Nothing { .. } => {
            "name the data directory of a server with --data-dir; its first start creates them"
        }
        CertificateError::UnderWay => {
            "finish it with `k3 certs rotate --finish` when all clients have the new kubeconfig"
        }
        CertificateError::Clock => "set the clock",
        _ => "check `k3 certs show`, and that this user may write to the directory",
    };
    CommandError::new("nothing was replaced", advice).caused_by(error)
}
