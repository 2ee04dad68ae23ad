//! What all commands have in common that run until they are told to stop.

use std::{
    io::{self, IsTerminal},
    path::Path,
    time::Duration,
};

use kubecontroller::manager::Stop;

use crate::{
    databases::{self, with_database},
    failure::Failure,
    limits,
    log::{self, LogFlags},
    runtime,
    server::{ControlPlane, Settings},
    signals::Signals,
};

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(5);

/// Whether it is told how to reach the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Announce {
    /// On standard output.
    Kubeconfig,
    /// It is for this process alone.
    Nothing,
}

/// Prepares the process: from here on it writes a log.
pub(super) fn init(flags: &LogFlags) -> Result<(), Failure> {
    log::init(flags)?;
    limits::raise_open_files();
    Ok(())
}

/// Does what has to be waited for, on all cores.
pub(super) fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    runtime::all_cores()?.block_on(work)
}

/// Runs a control plane on all cores until a signal comes, and then ends it in order.
pub(super) fn run(settings: Settings, announce: Announce) -> Result<(), Failure> {
    block_on(async { serve(settings, announce, &mut signals()?).await })
}

/// The same with a database that is started before, if it is missing and may be started, and ended after.
pub(super) fn run_with_database(
    databases: &databases::Settings,
    settings: Settings,
    announce: Announce,
) -> Result<(), Failure> {
    block_on(async {
        let storage = settings.storage.clone();
        let work = async |storage, signals: &mut Signals| {
            serve(Settings { storage, ..settings }, announce, signals).await
        };
        Box::pin(with_database(databases, storage, &mut signals()?, work)).await
    })
}

/// Runs a control plane until a signal comes, and then ends it in order.
pub(super) async fn serve(
    settings: Settings,
    announce: Announce,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let mut plane = tokio::select! {
        started = ControlPlane::start(settings) => started?,
        name = signals.next() => {
            tracing::info!("{name}: stopped before the server was ready");
            return Ok(());
        }
    };
    if announce == Announce::Kubeconfig {
        let file = shell_quoted(plane.kubeconfig().0);
        print_line!("export KUBECONFIG={file}");
        if io::stderr().is_terminal() {
            eprintln!("{}", next_steps(&file));
        }
    }
    tokio::select! {
        failure = plane.wait_for_failure() => return Err(failure),
        name = signals.next() => tracing::info!("{name}: stopping; the same again stops at once"),
    }
    tokio::select! {
        () = plane.stop() => Ok(()),
        name = signals.next() => Err(killed(name, "requests that were under way have been cut off")),
    }
}

/// Does something that ends when `stop` is stopped, which a signal does.
pub(super) async fn run_until_signal(
    stop: Stop,
    work: impl Future<Output = Result<(), Failure>>,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        ended = &mut work => return ended,
        name = signals.next() => tracing::info!("{name}: stopping; the same again stops at once"),
    }
    stop.stop(GRACE);
    tokio::select! {
        ended = &mut work => {
            tracing::info!("stopped");
            ended
        }
        name = signals.next() => Err(killed(name, "what was under way is seen again at the next start")),
    }
}

/// The signals by which the process is told to stop, heard from now on.
pub(super) fn signals() -> Result<Signals, Failure> {
    Signals::listen().map_err(|error| {
        Failure::new("cannot listen for signals", "this should not happen; try again").caused_by(error)
    })
}

fn killed(name: &str, advice: &str) -> Failure {
    Failure::new(format!("{name}: stopped at once"), advice)
}

/// What people do next. Programs need not be told.
fn next_steps(kubeconfig: &str) -> String {
    format!(
        "\nThe server is ready. In another terminal:\n  \
         export KUBECONFIG={kubeconfig}\n  \
         kubectl get nodes\n\
         `k3 controllers` tells how the rest fares, `k3 doctor` what ails it; Ctrl-C stops it.\n"
    )
}

/// The path as a shell reads it.
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
    fn a_path_is_quoted_where_a_shell_needs_it() {
        assert_eq!(shell_quoted(Path::new("/a/b-1.c")), "/a/b-1.c");
        assert_eq!(shell_quoted(Path::new("/a b")), "'/a b'");
        assert_eq!(shell_quoted(Path::new("/it's")), r"'/it'\''s'");
    }
}
