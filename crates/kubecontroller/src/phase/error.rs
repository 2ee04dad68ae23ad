//! Errors of handlers.

use std::{error::Error, fmt, io};

use tokio::time::error::Elapsed;

use crate::causes::with_causes;

/// Why a handler failed. `?` converts any error; the machine's `is_fatal` then decides whether it is fatal.
pub struct PhaseError {
    severity: Severity,
    text: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// A retry will not help: the object moves to the error phase.
    Fatal,
    /// A retry may help: the phase is kept and tried again.
    Retry,
    /// The machine's `is_fatal` decides.
    Undecided,
    /// Not a failure: the handler stopped because it was cancelled.
    Cancelled,
}

// --- PhaseError ---

impl PhaseError {
    /// A failure that no retry can fix.
    pub fn fatal(text: impl fmt::Display) -> Self {
        PhaseError::new(Severity::Fatal, text)
    }

    /// A failure that a retry may fix.
    pub fn retry(text: impl fmt::Display) -> Self {
        PhaseError::new(Severity::Retry, text)
    }

    /// Returned by a handler that stopped because of [`cancelled`](super::HandlerContext::cancelled).
    pub fn cancelled() -> Self {
        PhaseError::new(Severity::Cancelled, "cancelled")
    }

    fn new(severity: Severity, text: impl fmt::Display) -> Self {
        PhaseError {
            severity,
            text: text.to_string(),
            source: None,
        }
    }

    /// What follows from the failure.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// The error that `?` converted.
    pub fn source(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.source.as_deref()
    }

    /// The default of `is_fatal`: network errors and the status codes of an overloaded server, a timeout or a conflict are
    /// retriable; all other errors are fatal.
    pub fn is_fatal_by_default(&self) -> bool {
        let mut next: Option<&(dyn Error + 'static)> = self.source.as_deref().map(|source| source as _);
        while let Some(error) = next {
            if is_retriable(error) {
                return false;
            }
            next = error.source();
        }
        true
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for PhaseError {
    fn from(error: E) -> Self {
        let source: Box<dyn Error + Send + Sync> = Box::new(error);
        // `kube::Error` displays the whole `Status`; its message is enough for users.
        let text = match source.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) => status.message.clone(),
            _ => with_causes(&*source),
        };
        PhaseError {
            severity: Severity::Undecided,
            text,
            source: Some(source),
        }
    }
}

impl fmt::Display for PhaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for PhaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({:?})", self.severity, self.text)
    }
}

fn is_retriable(error: &(dyn Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<kube::Error>() {
        return match error {
            kube::Error::Api(status) => matches!(status.code, 408 | 409 | 429 | 500..),
            kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => true,
            _ => false,
        };
    }
    error.is::<Elapsed>()
        || error.downcast_ref::<io::Error>().is_some_and(|error| {
            use io::ErrorKind as K;
            matches!(
                error.kind(),
                K::ConnectionRefused
                    | K::ConnectionReset
                    | K::ConnectionAborted
                    | K::NotConnected
                    | K::BrokenPipe
                    | K::TimedOut
                    | K::Interrupted
                    | K::UnexpectedEof
                    | K::HostUnreachable
                    | K::NetworkUnreachable
                    | K::NetworkDown
                    | K::WouldBlock
            )
        })
}
