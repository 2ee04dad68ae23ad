//! `k3 migrate`: copies all objects of a store into another store.
//!
//! The target is read back and compared before success is reported, and servers cannot open it before that.

mod store_url;

use clap::Args;
use k3_storage::{
    backend::{BACKENDS, StorageBackend, UrlForm},
    transfer,
};
use kubecontroller::Clock;

use self::store_url::StoreUrl;
use super::{
    server_flags,
    stores::{self, ForceFlag, StoreRole},
};
use crate::{command_error::CommandError, progress, progress::ProgressLine, prose::and};

const EXAMPLES: &str = "\
Examples:
  k3 migrate --from file:/var/lib/k3 --to 'etcd://10.0.0.1:2379,10.0.0.2:2379?prefix=/k3/'
      from the data directory of a stopped server into an etcd

  k3 migrate --from 'etcd://10.0.0.1:2379?cafile=ca.pem' --to 'mysql://k3@db:3306/k3?password-file=pw&tls=required'
      from an etcd over TLS into a MySQL

";

const NOTES: &str = "\
Everything in the store is copied, including the private keys that servers of an etcd or MySQL share. Encrypted Secrets
stay encrypted: servers of the target need the same --encryption-provider-config.

Stop servers that use the source first: writes during the copy are not copied, only counted and reported. Start the servers
on the target afterwards; clients continue, because resourceVersions continue.

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Copy all objects of a store into another one of any type, and verify the copy.
#[derive(Debug, Args)]
#[command(after_long_help = long_help())]
pub(crate) struct MigrateFlags {
    /// Source store. Every user of the machine can read command lines: pass a password in the variable or in a file
    #[arg(long, value_name = "STORE", env = "K3_MIGRATE_FROM", hide_env_values = true)]
    from: StoreUrl,

    /// Target store
    #[arg(long, value_name = "STORE", env = "K3_MIGRATE_TO", hide_env_values = true)]
    to: StoreUrl,

    #[command(flatten)]
    force: ForceFlag,
}

fn long_help() -> String {
    let forms: Vec<_> = url_forms().collect();
    let mut lines = vec!["Stores:".to_owned()];
    lines.extend(
        forms
            .iter()
            .map(|(_, form)| format!("  {:<32}{}", form.form, form.meaning)),
    );
    let with_parameters = || forms.iter().filter(|(_, form)| !form.parameters.is_empty());
    let prefixes = with_parameters().map(|(backend, _)| format!("`--{}-`", backend.name()));
    lines.push(format!(
        "Parameters after `?` are the flags of `k3 start` for that store, without {}:",
        and(prefixes)
    ));
    let parameters: Vec<_> = with_parameters()
        .map(|(_, form)| form.parameters.join(", "))
        .collect();
    lines.push(format!("  {}", parameters.join("; ")));
    format!("{EXAMPLES}{}\n\n{NOTES}", lines.join("\n"))
}

/// The backends whose stores have URLs.
fn url_forms() -> impl Iterator<Item = (&'static dyn StorageBackend, &'static UrlForm)> {
    BACKENDS
        .iter()
        .filter_map(|backend| Some((*backend, backend.url_form()?)))
}

/// Runs the command.
pub(super) fn run(flags: &MigrateFlags) -> Result<(), CommandError> {
    server_flags::block_on_threads(async {
        let from = flags.from.config("--from")?;
        let to = flags.to.config("--to")?;
        let from = stores::open(&*from, StoreRole::Source).await?;
        let to = stores::open(&*to, StoreRole::Target).await?;
        let mut progress = ProgressLine::new("copied");
        let work = async {
            if stores::first_key(&*from).await?.is_none() {
                return Err(CommandError::new(
                    "the source store is empty",
                    "check directory, prefix or database in --from",
                ));
            }
            stores::ensure_empty(&*to, flags.force.existing_data()).await?;
            transfer::copy(&*from, &*to, &Clock::system(), |moved| progress.update(moved))
                .await
                .map_err(|error| {
                    let advice =
                        "the source is unchanged, and the target stays unusable: correct the cause, and try again";
                    CommandError::new("the copy is incomplete", advice).caused_by(error)
                })
        };
        let outcome = work.await;
        to.close().await;
        from.close().await;
        let copied = outcome?;
        let spent = progress.end();
        print_line!(
            "{}, from revision {} to {}; read again and compared",
            progress::line("copied", copied.transferred, spent),
            copied.source,
            copied.target
        );
        if copied.expired > 0 {
            print_line!("{} of them have expired", copied.expired);
        }
        if copied.missed_commits > 0 {
            eprintln!(
                "warning: {} writes to the source during the copy are not in the target: stop the servers that use it, \
                 and copy again with --force",
                copied.missed_commits
            );
        }
        Ok(())
    })
}
