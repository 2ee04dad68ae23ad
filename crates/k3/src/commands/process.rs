//! Common parts of commands that run until a signal.

use std::{path::Path, time::Duration};

use kubecontroller::manager::Stop;

use crate::{
    command_error::CommandError,
    databases::{self, with_database},
    limits,
    log::{self, LogFlags},
    runtime,
    server::{ControlPlane, ControlPlaneSettings},
    signals::StopSignals,
};

/// Grace period of a stop.
const GRACE: Duration = Duration::from_secs(5);

/// Whether the kubeconfig is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KubeconfigNotice {
    /// On standard output.
    Kubeconfig,
    /// The server is private to this process.
    Nothing,
}

/// Initializes logging and resource limits.
pub(super) fn init(flags: &LogFlags) -> Result<(), CommandError> {
    log::init(flags)?;
    limits::raise_open_files();
    Ok(())
}

/// Runs a future on all cores.
pub(super) fn block_on(work: impl Future<Output = Result<(), CommandError>>) -> Result<(), CommandError> {
    runtime::all_cores()?.block_on(work)
}

/// Runs a control plane on all cores until a signal, then stops it in order.
pub(super) fn run(settings: ControlPlaneSettings, announce: KubeconfigNotice) -> Result<(), CommandError> {
    block_on(async { serve(settings, announce, &mut signals()?).await })
}

/// The same, with a database that is started on demand and stopped afterwards.
pub(super) fn run_with_database(
    databases: &databases::DatabaseSettings,
    settings: ControlPlaneSettings,
    announce: KubeconfigNotice,
) -> Result<(), CommandError> {
    block_on(async {
        let storage = settings.storage;
        let work = async |storage, signals: &mut StopSignals| {
            serve(ControlPlaneSettings { storage, ..settings }, announce, signals).await
        };
        Box::pin(with_database(databases, storage, &mut signals()?, work)).await
    })
}

/// Runs a control plane until a signal, then stops it in order.
pub(super) async fn serve(
    settings: ControlPlaneSettings,
    announce: KubeconfigNotice,
    signals: &mut StopSignals,
) -> Result<(), CommandError> {
    let mut plane = tokio::select! {
        started = ControlPlane::start(settings) => started?,
        name = signals.next() => {
            tracing::info!("{name}: stopped before the server was ready");
            return Ok(());
        }
    };
    if announce == KubeconfigNotice::Kubeconfig {
        let file = shell_quoted(plane.kubeconfig().0);
        print_line!("export KUBECONFIG={file}");
        tracing::info!("next, in another terminal: export KUBECONFIG={file}; kubectl get nodes");
    }
    tokio::select! {
        failure = plane.wait_for_failure() => return Err(failure),
        name = signals.next() => tracing::info!("{name}: stopping; a second signal stops immediately"),
    }
    tokio::select! {
        () = plane.stop() => Ok(()),
        name = signals.next() => Err(killed(name, "running requests were aborted")),
    }
}

/// Runs `work`, and stops it on a signal.
pub(super) async fn run_until_signal(
    stop: Stop,
    work: impl Future<Output = Result<(), CommandError>>,
    signals: &mut StopSignals,
) -> Result<(), CommandError> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        ended = &mut work => return ended,
        name = signals.next() => tracing::info!("{name}: stopping; a second signal stops immediately"),
    }
    stop.stop(GRACE);
    tokio::select! {
        ended = &mut work => {
            tracing::info!("stopped");
            ended
        }
        name = signals.next() => Err(killed(name, "interrupted work is resumed at the next start")),
    }
}

/// Starts to listen for the signals that stop the process.
pub(super) fn signals() -> Result<StopSignals, CommandError> {
    StopSignals::listen().map_err(|error| {
        CommandError::new("cannot listen for signals", "this should not happen; try again").caused_by(error)
    })
}

fn killed(name: &str, advice: &str) -> CommandError {
    CommandError::new(format!("{name}: stopped immediately"), advice)
}

/// The path, quoted for a shell.
pub(super) fn shell_quoted(path: &Path) -> String {
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
    fn quotes_paths_for_shells() {
        assert_eq!(shell_quoted(Path::new("/a/b-1.c")), "/a/b-1.c");
        assert_eq!(shell_quoted(Path::new("/a b")), "'/a b'");
        assert_eq!(shell_quoted(Path::new("/it's")), r"'/it'\''s'");
    }
}
