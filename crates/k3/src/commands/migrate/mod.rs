//! `k3 migrate`: all objects of a store into another.
//!
//! Promise: the target is read again and compared before success is told, and it is closed to servers until all has arrived.

mod store_url;

use clap::Args;
use k3_storage::{SystemClock, transfer};

use self::store_url::StoreUrl;
use super::{
    server_flags,
    stores::{self, ForceFlag, StoreRole},
};
use crate::{failure::Failure, progress, progress::Progress};

const EXAMPLES: &str = "\
Examples:
  k3 migrate --from file:/var/lib/k3 --to 'etcd://10.0.0.1:2379,10.0.0.2:2379?prefix=/k3/'
      from the data directory of a server that is stopped into an etcd

  k3 migrate --from 'etcd://10.0.0.1:2379?cafile=ca.pem' --to 'mysql://k3@db:3306/k3?password-file=pw&tls=required'
      from an etcd over TLS into a MySQL

Stores:
  file:DIR                        the data directory of a server, as in `k3 start --data-dir DIR`
  etcd://HOST:PORT[,HOST:PORT]    an etcd; with cafile= over TLS
  mysql://USER@HOST[:PORT][/DB]   a MySQL or MariaDB
What follows a `?` are the flags of `k3 start` for that store, without `--etcd-` and `--mysql-`:
  prefix, cafile, certfile, keyfile, username, password-file; tls, cafile, password-file

Everything in the store is copied, also the private keys that servers of an etcd or MySQL share. Secrets that are encrypted
stay encrypted: servers of the target need the same --encryption-provider-config.

Servers that use the source should be stopped before, or what they write meanwhile is left behind: that is counted and
told. Start them on the target afterwards; clients go on, since resourceVersions go on.

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Copy all objects of a store into another, of whatever sort, and check that they have arrived.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct MigrateFlags {
    /// The store to copy. Everybody on the machine can read a command line: a password goes into the variable or into a file
    #[arg(long, value_name = "STORE", env = "K3_MIGRATE_FROM", hide_env_values = true)]
    from: StoreUrl,

    /// The store to fill
    #[arg(long, value_name = "STORE", env = "K3_MIGRATE_TO", hide_env_values = true)]
    to: StoreUrl,

    #[command(flatten)]
    force: ForceFlag,
}

/// Carries out the command.
pub(super) fn run(flags: &MigrateFlags) -> Result<(), Failure> {
    server_flags::block_on_threads(async {
        let (from, to) = (flags.from.config("--from")?, flags.to.config("--to")?);
        let from = stores::open(from, StoreRole::Source).await?;
        let to = stores::open(to, StoreRole::Target).await?;
        let mut progress = Progress::new("copied");
        let work = async {
            if stores::first_key(&*from).await?.is_none() {
                return Err(Failure::new(
                    "there is nothing in the store that is to be copied",
                    "see that --from names the right one: its directory, its prefix, its database",
                ));
            }
            stores::ensure_empty(&*to, flags.force.existing_data()).await?;
            transfer::copy(&*from, &*to, &SystemClock, |moved| progress.update(moved))
                .await
                .map_err(|error| {
                    let advice =
                        "the source is as it was, and the target stays closed: see the cause, and try again";
                    Failure::new("not all was copied", advice).caused_by(error)
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
            print_line!("{} of them had a time to end at, which has come", copied.expired);
        }
        if copied.missed_commits > 0 {
            eprintln!(
                "warning: {} writes came to the source meanwhile and are not in the target: stop the servers that use it, \
                 and copy again with --force",
                copied.missed_commits
            );
        }
        Ok(())
    })
}
