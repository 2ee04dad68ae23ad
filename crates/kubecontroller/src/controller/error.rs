//! Why a reconcile failed, and what is to be done about it.

use std::{fmt, time::Duration};

use crate::manager::BoxError;

/// Why a reconcile failed.
///
/// Any error becomes one by `?`. What the API answered is classified, also where it is the cause of something else; other
/// errors are [`ErrorClass::Unknown`], unless the reconciler knows better:
///
/// ```
/// use kubecontroller::controller::{ErrorClass, Error, Outcome};
///
/// fn size(text: &str) -> Result<u32, Error> {
///     text.parse().map_err(Error::permanent)
/// }
/// assert_eq!(size("many").unwrap_err().class(), ErrorClass::Permanent);
/// ```
pub struct Error {
    class: ErrorClass,
    /// For how long whoever answered does not want to be asked again.
    not_before: Option<Duration>,
    source: BoxError,
}

/// What is to be done about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// It is expected to go away: others wrote at the same time, or the API is away. Tried again, with growing pauses.
    Transient,
    /// It stays until the object changes. Not tried again before that.
    Permanent,
    /// Nobody knows. Tried again, with growing pauses.
    Unknown,
}

// --- Error ---

impl Error {
    /// It is expected to go away.
    pub fn transient(source: impl Into<BoxError>) -> Self {
        Error::new(ErrorClass::Transient, source.into())
    }

    /// It stays until the object changes: there is no use in trying again.
    pub fn permanent(source: impl Into<BoxError>) -> Self {
        Error::new(ErrorClass::Permanent, source.into())
    }

    /// Nobody knows whether it stays.
    pub fn unknown(source: impl Into<BoxError>) -> Self {
        Error::new(ErrorClass::Unknown, source.into())
    }

    fn new(class: ErrorClass, source: BoxError) -> Self {
        Error {
            class,
            not_before: None,
            source,
        }
    }

    /// Not to be tried again before a while is over, as when somebody asked to be left alone.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.not_before = Some(after);
        self
    }

    /// What is to be done about it.
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// How long to wait at least before the next try, if somebody said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.not_before
    }

    /// The error itself.
    pub fn source(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.source
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let (class, not_before) = classify(&error);
        Error {
            class,
            not_before,
            source: error.into(),
        }
    }
}

/// The message, and those of its causes, as far as they say more.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = String::new();
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&*self.source);
        while let Some(error) = next {
            // Of what the API answered its message, not the whole status, which says the same again.
            let (more, cause) = match error.downcast_ref() {
                Some(kube::Error::Api(status)) => (status.message.clone(), None),
                _ => (error.to_string(), error.source()),
            };
            // Many errors repeat their cause.
            if said.is_empty() {
                f.write_str(&more)?;
                said = more;
            } else if !said.ends_with(&more) {
                write!(f, ": {more}")?;
                said = more;
            }
            next = cause;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({:?})", self.class, self.source)
    }
}

// --- classes ---

/// The class of an error of the API, wherever it is among the causes.
fn classify(error: &(dyn std::error::Error + 'static)) -> (ErrorClass, Option<Duration>) {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<kube::Error>() {
            return classify_answer(error);
        }
        cause = error.source();
    }
    (ErrorClass::Unknown, None)
}

fn classify_answer(error: &kube::Error) -> (ErrorClass, Option<Duration>) {
    match error {
        kube::Error::Api(status) => {
            let asked = status
                .details
                .as_ref()
                .map_or(0, |details| details.retry_after_seconds);
            let not_before = (asked > 0).then(|| Duration::from_secs(u64::from(asked)));
            let class = match status.code {
                404 | 408 | 409 | 410 | 429 | 500..=599 => ErrorClass::Transient,
                403 if is_expected_rejection(status) => ErrorClass::Transient,
                _ => ErrorClass::Unknown,
            };
            (class, not_before)
        }
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => {
            (ErrorClass::Transient, None)
        }
        _ => (ErrorClass::Unknown, None),
    }
}

/// Whether admission rejected a write for a reason that resolves itself: an exceeded quota, or a namespace that is terminating.
fn is_expected_rejection(status: &kube::core::Status) -> bool {
    // upstream: staging/src/k8s.io/api/core/v1/types.go NamespaceTerminatingCause
    const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let is_terminating = causes
        .into_iter()
        .any(|cause| cause.reason == NAMESPACE_TERMINATING);
    is_terminating || status.message.contains("exceeded quota")
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use kube::core::Status;

    use super::{Error, ErrorClass};

    fn answer(code: u16) -> kube::Error {
        kube::Error::Api(Status::failure("no", "Reason").with_code(code).boxed())
    }

    #[test]
    fn what_the_api_answers_is_classified() {
        for (code, class) in [
            (404, ErrorClass::Transient),
            (409, ErrorClass::Transient),
            (429, ErrorClass::Transient),
            (500, ErrorClass::Transient),
            (503, ErrorClass::Transient),
            (400, ErrorClass::Unknown),
            (403, ErrorClass::Unknown),
            (422, ErrorClass::Unknown),
        ] {
            assert_eq!(Error::from(answer(code)).class(), class, "{code}");
        }
        let quota =
            Status::failure("pods \"a\" is forbidden: exceeded quota: compute", "Forbidden").with_code(403);
        assert_eq!(
            Error::from(kube::Error::Api(quota.boxed())).class(),
            ErrorClass::Transient
        );
        let away = kube::Error::Service("connection refused".into());
        assert_eq!(Error::from(away).class(), ErrorClass::Transient);
    }

    #[test]
    fn an_answer_is_found_among_the_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot scale")]
        struct Cannot(#[source] kube::Error);
        let error = Error::from(Cannot(answer(409)));
        assert_eq!(error.class(), ErrorClass::Transient);
        assert_eq!(error.to_string(), "cannot scale: no");
    }

    #[test]
    fn who_asks_to_be_left_alone_is() {
        let details = serde_json::from_str(r#"{"retryAfterSeconds": 7}"#).unwrap();
        let busy = Status::failure("busy", "TooManyRequests")
            .with_code(429)
            .with_details(details);
        let error = Error::from(kube::Error::Api(busy.boxed()));
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    }

    #[test]
    fn a_reconciler_may_know_better() {
        assert_eq!(Error::from(io::Error::other("?")).class(), ErrorClass::Unknown);
        assert_eq!(
            Error::permanent("a size must be a number").class(),
            ErrorClass::Permanent
        );
        assert_eq!(Error::transient(answer(422)).class(), ErrorClass::Transient);
    }
}
