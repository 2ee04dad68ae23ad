//! The life of the process: from the flags to the last connection.

use std::path::Path;

use super::StartFlags;
use crate::{
    databases::{Autostart, with_database},
    failure::Failure,
    limits, log,
    server::{ControlPlane, Settings},
    signals::Signals,
};

/// Runs a server until it is told to stop.
pub(crate) fn run(flags: StartFlags) -> Result<(), Failure> {
    log::begin(flags.log_level.with_verbosity(flags.verbosity));
    let databases = flags.databases.settings(Autostart::On, flags.node.wanted()?);
    let settings = flags.settings()?;
    limits::raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(
                "cannot start threads",
                "see `ulimit -u` and the memory of the machine",
            )
            .because(error)
        })?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(|error| {
            Failure::new("cannot listen for signals", "this should not happen; try again").because(error)
        })?;
        let (storage, data_dir) = (settings.storage.clone(), settings.data_dir.clone());
        with_database(
            &databases,
            storage,
            &data_dir,
            &mut signals,
            async |storage, signals| live(Settings { storage, ..settings }, signals).await,
        )
        .await
    })
}

/// Runs a control plane until a signal comes, and then ends it in order.
async fn live(settings: Settings, signals: &mut Signals) -> Result<(), Failure> {
    let mut plane = tokio::select! {
        started = ControlPlane::start(settings) => started?,
        name = signals.next() => {
            tracing::info!("{name}: stopped before the server was ready");
            return Ok(());
        }
    };
    println!("export KUBECONFIG={}", quoted(plane.kubeconfig().0));
    tokio::select! {
        failure = plane.ended() => return Err(failure),
        name = signals.next() => tracing::info!("{name}: stopping; the same again stops at once"),
    }
    tokio::select! {
        () = plane.stop() => Ok(()),
        name = signals.next() => Err(Failure::new(
            format!("{name}: stopped at once"),
            "requests that were under way have been cut off",
        )),
    }
}

/// The path as a shell reads it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%".contains(c);
    if text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted(Path::new("/a/b-1.c")), "/a/b-1.c");
        assert_eq!(quoted(Path::new("/a b")), "'/a b'");
        assert_eq!(quoted(Path::new("/it's")), r"'/it'\''s'");
    }
}
