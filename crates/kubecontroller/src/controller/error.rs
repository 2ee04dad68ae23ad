//! Errors of reconciles and their classes.

use std::{fmt, time::Duration};

use crate::manager::BoxError;

/// Why a reconcile failed.
///
/// Any error converts with `?`. Errors of the API server are classified, also where they are the source of another error. Other
/// errors are [`ErrorClass::Unknown`], unless the reconciler classifies them:
///
/// ```
/// use kubecontroller::controller::{Error, ErrorClass};
///
/// fn parse_size(text: &str) -> Result<u32, Error> {
///     text.parse().map_err(Error::permanent)
/// }
/// assert_eq!(parse_size("many").unwrap_err().class(), ErrorClass::Permanent);
/// ```
#[doc(alias = "TerminalError")]
pub struct Error {
    class: ErrorClass,
    retry_after: Option<Duration>,
    source: BoxError,
}

/// How the controller treats an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Expected to resolve itself: a write conflict, or an API server that is unavailable. Retried with backoff, logged at info.
    Transient,
    /// Persists until the object changes: controller-runtime's `TerminalError`. Not retried before that.
    Permanent,
    /// Unclassified. Retried with backoff, logged at error.
    Unknown,
}

// --- Error ---

impl Error {
    /// A [transient](ErrorClass::Transient) error.
    pub fn transient(source: impl Into<BoxError>) -> Self {
        Error::new(ErrorClass::Transient, source.into())
    }

    /// A [permanent](ErrorClass::Permanent) error: retrying is pointless until the object changes.
    pub fn permanent(source: impl Into<BoxError>) -> Self {
        Error::new(ErrorClass::Permanent, source.into())
    }

    /// An [unclassified](ErrorClass::Unknown) error.
    pub fn unknown(source: impl Into<BoxError>) -> Self {
        Error::new(ErrorClass::Unknown, source.into())
    }

    fn new(class: ErrorClass, source: BoxError) -> Self {
        Error {
            class,
            retry_after: None,
            source,
        }
    }

    /// Sets the minimum delay before the next attempt.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// How the controller treats this error.
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// The minimum delay before the next attempt. Set from `retryAfterSeconds` if the API server sent it.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The underlying error.
    pub fn source(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.source
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let (class, retry_after) = classify(&error);
        Error {
            class,
            retry_after,
            source: error.into(),
        }
    }
}

/// The message, followed by those of the sources that add something.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = String::new();
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&*self.source);
        while let Some(error) = next {
            // `kube::Error::Api` prints its message and then the whole Status, which contains the message again.
            let (message, source) = match error.downcast_ref() {
                Some(kube::Error::Api(status)) => (status.message.clone(), None),
                _ => (error.to_string(), error.source()),
            };
            // Many errors print their source themselves.
            if last.is_empty() {
                f.write_str(&message)?;
                last = message;
            } else if !last.ends_with(&message) {
                write!(f, ": {message}")?;
                last = message;
            }
            next = source;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({:?})", self.class, self.source)
    }
}

// --- classification ---

/// Classifies by the first error of the API server in the chain of sources.
fn classify(error: &(dyn std::error::Error + 'static)) -> (ErrorClass, Option<Duration>) {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<kube::Error>() {
            return classify_api_error(error);
        }
        cause = error.source();
    }
    (ErrorClass::Unknown, None)
}

fn classify_api_error(error: &kube::Error) -> (ErrorClass, Option<Duration>) {
    match error {
        kube::Error::Api(status) => {
            let seconds = status
                .details
                .as_ref()
                .map_or(0, |details| details.retry_after_seconds);
            let retry_after = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
            // 404 and 410 are transient: usually the store was behind and the reconcile referred to an object that is deleted.
            let class = match status.code {
                404 | 408 | 409 | 410 | 429 | 500..=599 => ErrorClass::Transient,
                403 if is_expected_rejection(status) => ErrorClass::Transient,
                _ => ErrorClass::Unknown,
            };
            (class, retry_after)
        }
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => {
            (ErrorClass::Transient, None)
        }
        _ => (ErrorClass::Unknown, None),
    }
}

/// Whether admission rejected a write for a reason that resolves itself: an exceeded quota, or a namespace that is terminating.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go CheckRequest
fn is_expected_rejection(status: &kube::core::Status) -> bool {
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go Admit
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

    fn api_error(code: u16) -> kube::Error {
        kube::Error::Api(Status::failure("no", "Reason").with_code(code).boxed())
    }

    #[test]
    fn classifies_errors_of_the_api_server() {
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
            assert_eq!(Error::from(api_error(code)).class(), class, "{code}");
        }
        let quota =
            Status::failure("pods \"a\" is forbidden: exceeded quota: compute", "Forbidden").with_code(403);
        assert_eq!(
            Error::from(kube::Error::Api(quota.boxed())).class(),
            ErrorClass::Transient
        );
        let unavailable = kube::Error::Service("connection refused".into());
        assert_eq!(Error::from(unavailable).class(), ErrorClass::Transient);
    }

    #[test]
    fn finds_an_api_error_among_the_sources() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot scale")]
        struct ScaleError(#[source] kube::Error);
        let error = Error::from(ScaleError(api_error(409)));
        assert_eq!(error.class(), ErrorClass::Transient);
        assert_eq!(error.to_string(), "cannot scale: no");
    }

    #[test]
    fn takes_retry_after_from_the_status() {
        let details = serde_json::from_str(r#"{"retryAfterSeconds": 7}"#).unwrap();
        let busy = Status::failure("busy", "TooManyRequests")
            .with_code(429)
            .with_details(details);
        let error = Error::from(kube::Error::Api(busy.boxed()));
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    }

    #[test]
    fn a_reconciler_can_classify_errors() {
        assert_eq!(Error::from(io::Error::other("?")).class(), ErrorClass::Unknown);
        assert_eq!(
            Error::permanent("a size must be a number").class(),
            ErrorClass::Permanent
        );
        assert_eq!(Error::transient(api_error(422)).class(), ErrorClass::Transient);
    }
}
