//! What can go wrong between a test and its service.

use std::io;

/// Why a service could not be started or driven.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The program is not installed.
    #[error(
        "`{program}` is not installed (Debian package {package}); run `cargo xtask test` as root, \
         which installs it, or set {variable}"
    )]
    Missing {
        /// The program that was looked for.
        program: &'static str,
        /// The Debian package of the program.
        package: &'static str,
        /// The environment variable that offers a running service instead.
        variable: &'static str,
    },
    /// The process ended before it was ready.
    #[error("{service} ended before it was ready; the end of its log:\n{log}")]
    Ended {
        /// Which service.
        service: &'static str,
        /// The last lines it wrote.
        log: String,
    },
    /// The process runs but did not become ready in time.
    #[error("{service} was not ready within {seconds} s; the end of its log:\n{log}")]
    NotReady {
        /// Which service.
        service: &'static str,
        /// How long it was waited for.
        seconds: u64,
        /// The last lines it wrote.
        log: String,
    },
    /// A program that prepares something failed.
    #[error("{command} failed: {errors}")]
    Failed {
        /// The command.
        command: String,
        /// The output.
        errors: String,
    },
    /// No free port was found.
    #[error("no free port on 127.0.0.1")]
    NoPort,
    /// The directory or the supervising shell could not be used.
    #[error("cannot {doing}: {source}")]
    Io {
        /// The failed operation.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

// --- ServiceError ---

impl ServiceError {
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// Whether another process took the port between the choice and the bind: try again with another.
    pub(crate) fn is_port_taken(&self) -> bool {
        matches!(self, Self::Ended { log, .. } if log.to_ascii_lowercase().contains("address already in use"))
    }
}
