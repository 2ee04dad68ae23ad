//! Errors of requests, classified by whether the request may have been applied.

use std::error::Error;

use tonic::{Code, ConnectError, Status};

use super::BACKEND;
use crate::{StoreError, plain_error};

/// The error of a request to etcd.
#[derive(Debug)]
pub(super) enum EtcdFailure {
    /// No member received the request: it was not applied.
    Unsent(Status),
    /// A member rejected the request: it was not applied.
    Refused(Status),
    /// The request was sent without a response: it may have been applied.
    Unknown(Status),
    /// The request was not sent because of a local error.
    Ours(StoreError),
}

/// The kinds of rejections that callers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EtcdRejection {
    /// The requested revision was compacted.
    Compacted,
    /// The requested revision is in the future.
    Future,
    /// The request is over etcd's size limit.
    TooLarge,
    /// The space quota of etcd is exceeded.
    Full,
    /// A lease with this id exists.
    LeaseExists,
    /// The authentication token is missing or has expired.
    LoginNeeded,
    /// Wrong user name or password.
    LoginWrong,
    /// Authentication is not enabled.
    LoginDisabled,
    /// The member's data is corrupt.
    Corrupt,
    /// Any other error.
    Other,
}

// --- EtcdFailure ---

impl EtcdFailure {
    pub(super) fn new(status: Status) -> Self {
        if is_unsent(&status) {
            return Self::Unsent(status);
        }
        // The transport error does not tell more than whether the request was sent.
        if status.source().is_some() {
            return Self::Unknown(status);
        }
        match status.code() {
            Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::DataLoss => Self::Refused(status),
            _ => Self::Unknown(status),
        }
    }

    /// The request timed out.
    pub(super) fn late() -> Self {
        Self::Unknown(Status::deadline_exceeded("no answer in time"))
    }

    pub(super) fn rejection(&self) -> Option<EtcdRejection> {
        match self {
            Self::Refused(status) => Some(EtcdRejection::of(status)),
            Self::Unsent(_) | Self::Unknown(_) | Self::Ours(_) => None,
        }
    }

    /// Converts the error to a store error; `location` names the store.
    pub(super) fn into_store_error(self, location: &str) -> StoreError {
        let status = match self {
            Self::Ours(error) => return error,
            Self::Unsent(status) | Self::Refused(status) | Self::Unknown(status) => status,
        };
        match EtcdRejection::of(&status) {
            EtcdRejection::Full => full(location),
            EtcdRejection::Corrupt => StoreError::Corrupt(status.message().to_owned()),
            _ => {
                tracing::debug!(%status, "etcd request failed");
                StoreError::Unavailable {
                    backend: BACKEND,
                    message: format!("{location}: {}", describe(&status)),
                    source: None,
                }
            }
        }
    }
}

/// The error of an exceeded quota. etcd rejects writes until an operator frees space and disarms the alarm.
pub(super) fn full(location: &str) -> StoreError {
    StoreError::Full {
        location: location.to_owned(),
        message: "etcd has used up its space quota (compact it, defragment it, and disarm its alarm)"
            .to_owned(),
    }
}

fn describe(status: &Status) -> String {
    match status.source() {
        // The message of a transport error is generic; its cause has the details.
        Some(cause) => plain_error::describe(cause),
        None if status.code() == Code::DeadlineExceeded => {
            "no answer in time; check that etcd is healthy and not overloaded".to_owned()
        }
        None => format!("etcd answered: {}", status.message()),
    }
}

/// Whether no member has processed the request.
fn is_unsent(status: &Status) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = status.source();
    while let Some(error) = cause {
        // Either there is no connection, or the request was still waiting in line when it closed.
        let waiting = error.downcast_ref().is_some_and(hyper::Error::is_canceled);
        if waiting || error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    // Requests carry `hasleader`, so a member without a leader rejects them before it processes them.
    status.code() == Code::Unavailable && status.message().contains("etcdserver: no leader")
}

// --- EtcdRejection ---

impl EtcdRejection {
    /// Classifies a rejection. Most of etcd's errors differ only in their text.
    fn of(status: &Status) -> Self {
        let message_contains = |text| status.message().contains(text);
        match status.code() {
            Code::OutOfRange if message_contains("has been compacted") => Self::Compacted,
            Code::OutOfRange if message_contains("future revision") => Self::Future,
            Code::InvalidArgument if message_contains("request is too large") => Self::TooLarge,
            Code::ResourceExhausted if message_contains("message larger than max") => Self::TooLarge,
            Code::ResourceExhausted if message_contains("space exceeded") => Self::Full,
            Code::FailedPrecondition if message_contains("lease already exists") => Self::LeaseExists,
            Code::FailedPrecondition if message_contains("authentication is not enabled") => {
                Self::LoginDisabled
            }
            Code::Unauthenticated if message_contains("invalid auth token") => Self::LoginNeeded,
            Code::InvalidArgument if message_contains("user name is empty") => Self::LoginNeeded,
            // Users or roles changed after the token was issued.
            Code::InvalidArgument if message_contains("revision in auth store is old") => Self::LoginNeeded,
            Code::InvalidArgument if message_contains("authentication failed") => Self::LoginWrong,
            Code::DataLoss => Self::Corrupt,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn reports_failure_only_when_the_write_cannot_have_happened() {
        let mut unreached = Status::unavailable("tcp connect error");
        unreached.set_source(Arc::new(ConnectError("refused".into())));
        assert!(matches!(EtcdFailure::new(unreached), EtcdFailure::Unsent(_)));
        assert!(matches!(
            EtcdFailure::new(Status::unavailable("etcdserver: no leader")),
            EtcdFailure::Unsent(_)
        ));
        for status in [
            Status::unavailable("etcdserver: request timed out"),
            Status::unavailable("etcdserver: leader changed"),
            Status::unknown("transport error"),
            Status::cancelled("h2"),
            Status::internal("h2"),
        ] {
            assert!(matches!(EtcdFailure::new(status), EtcdFailure::Unknown(_)));
        }
        let mut hung_up = Status::resource_exhausted("h2: calm down");
        hung_up.set_source(Arc::new(std::io::Error::other("h2")));
        assert!(matches!(EtcdFailure::new(hung_up), EtcdFailure::Unknown(_)));
        assert!(matches!(
            EtcdFailure::new(Status::invalid_argument("etcdserver: duplicate key")),
            EtcdFailure::Refused(_)
        ));
    }
}
