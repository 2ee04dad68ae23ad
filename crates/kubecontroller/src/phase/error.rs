//! What handlers fail of.

use std::{error::Error, fmt, io};

use tokio::time::error::Elapsed;

use crate::causes::with_causes;

/// Why a handler failed. Any error becomes one with `?`; whether that is fatal is then for the machine to say.
pub struct PhaseError {
    severity: Severity,
    text: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Trying again will not help: to the error phase.
    Fatal,
    /// Trying again may help: the phase stays, and is tried again.
    Retry,
    /// The machine's `is_fatal` decides.
    Undecided,
    /// Not a failure: the handler was told to stop, and did.
    Cancelled,
}

// --- PhaseError ---

impl PhaseError {
    /// A failure that no other try repairs.
    pub fn fatal(text: impl fmt::Display) -> Self {
        PhaseError::new(Severity::Fatal, text)
    }

    /// A failure that another try may repair.
    pub fn retry(text: impl fmt::Display) -> Self {
        PhaseError::new(Severity::Retry, text)
    }

    /// What a handler answers that stopped because [`cancelled`](super::Context::cancelled) told it to.
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

    /// What to do about it.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// The error it was made of.
    pub fn source(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.source.as_deref()
    }

    /// The rule of machines that have none of their own: error of the network, and answers of a server that is busy or
    /// was overtaken, pass by; all else is fatal.
    pub fn looks_fatal(&self) -> bool {
        let mut next: Option<&(dyn Error + 'static)> = self.source.as_deref().map(|source| source as _);
        while let Some(error) = next {
            if passes_by(error) {
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
        // The client shows the whole answer of the server; users are helped by its message.
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

fn passes_by(error: &(dyn Error + 'static)) -> bool {
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
