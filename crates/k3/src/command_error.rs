//! Errors of commands: what failed, why, and what to do.

use std::{error::Error, fmt, process::ExitCode};

use k3_client::with_causes;

/// The error of a command.
#[derive(Debug)]
pub(crate) struct CommandError {
    what: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
    advice: String,
    kind: CommandErrorKind,
}

#[derive(Clone, Copy, Debug)]
enum CommandErrorKind {
    Usage,
    Runtime,
    /// Complete text and exit code.
    Verbatim(u8),
}

// --- CommandError ---

impl CommandError {
    /// A usage error, and what to do.
    pub(crate) fn usage(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            cause: None,
            advice: advice.into(),
            kind: CommandErrorKind::Usage,
        }
    }

    /// A runtime error, and what to do.
    pub(crate) fn new(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            kind: CommandErrorKind::Runtime,
            ..Self::usage(what, advice)
        }
    }

    /// An error with complete text and exit code.
    pub(crate) fn verbatim(text: impl Into<String>, code: u8) -> Self {
        Self {
            kind: CommandErrorKind::Verbatim(code),
            ..Self::usage(text, "")
        }
    }

    /// Adds the cause.
    pub(crate) fn caused_by(self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            cause: Some(cause.into()),
            ..self
        }
    }

    /// Adds lines to the advice.
    pub(crate) fn with_notes(mut self, notes: &str) -> Self {
        if !notes.is_empty() {
            self.advice = format!("{}\n{notes}", self.advice);
        }
        self
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.kind {
            CommandErrorKind::Usage => ExitCode::from(2),
            CommandErrorKind::Runtime => ExitCode::FAILURE,
            CommandErrorKind::Verbatim(code) => ExitCode::from(code),
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(self.kind, CommandErrorKind::Verbatim(_)) {
            f.write_str("error: ")?;
        }
        f.write_str(&self.what)?;
        if let Some(cause) = self.cause.as_deref() {
            write!(f, ": {}", with_causes(cause))?;
        }
        for line in self.advice.lines() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

/// What to do about an HTTP status.
pub(crate) fn advice_for_status(code: u16) -> &'static str {
    match code {
        401 | 403 => {
            "use the kubeconfig of a member of system:masters, such as the admin.kubeconfig in the data directory"
        }
        404 => "check that the server is a k3 of this version: `k3 version` shows both",
        409 => "conflict with a concurrent change: try again",
        429 | 503 | 504 => "the server is overloaded or not ready: try again in some seconds",
        400..500 => "correct the request and try again",
        _ => "check the log of the server; `k3 doctor` checks what it needs",
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn prints_what_failed_why_and_what_to_do() {
        let cause = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let failure = CommandError::new("cannot read a.csv", "make it\nor leave out --token-auth-file")
            .caused_by(cause);
        assert_eq!(
            failure.to_string(),
            "error: cannot read a.csv: no such file\n  make it\n  or leave out --token-auth-file"
        );
    }
}
